// One episode, turn by turn.

const STOPPED = {
  length: "the response hit the token limit",
  content_filter: "the model or its provider refused to answer",
  tool_call: "the model called a tool that it was not offered",
  error: "no response could be had",
};

function episodeView(episode, label) {
  const article = make("article", "episode");
  const header = make("header");
  header.append(make("h4", "", label));
  header.append(make("span", episode.success ? "outcome solved" : "outcome", episode.error ? "Not counted" : episode.success ? "Solved" : "Failed"));
  const numTurns = episode.num_turns ?? episode.turns.length;
  const turns = numTurns + (numTurns === 1 ? " turn" : " turns");
  header.append(
    make("span", "note", (episode.world || episode.env_id) + ", seed " + episode.seed + ", " + turns + ", reward " + short(episode.total_reward))
  );
  if (episode.mistake) {
    const mistake = make("p", "mistake", blame(episode.mistake) + " ");
    mistake.append(make("small", "", episode.mistake.detail));
    header.append(mistake);
  }
  if (episode.error) header.append(errorView("Ended by a failure: ", episode.error));
  article.append(header);
  episode.turns.forEach((turn, index) => {
    const card = turnView(turn, index, episode.turns.length);
    card.classList.toggle("first-mistake", episode.mistake?.turn === index);
    article.append(card);
  });
  if (episode.final) article.append(finalView(episode.final));
  return article;
}

function errorView(title, text) {
  const error = make("p", "error");
  error.append(make("b", "", title), text);
  return error;
}

function picturesView(names) {
  const pictures = make("div", "pictures");
  for (const name of names) {
    if (!payload.images[name]) {
      pictures.append(make("div", "missing", "The picture’s file is missing"));
      continue;
    }
    const image = make("img");
    image.src = payload.images[name];
    image.alt = "What the agent saw";
    pictures.append(image);
  }
  return pictures;
}

function shownText(text) {
  if (text.length < 240) return make("p", "shown", text);
  const details = make("details", "shown");
  details.append(make("summary", "", text.trim().split("\n")[0]), make("div", "", text));
  return details;
}

// What is wrong with a response: why it had no action, if it had none, and what was out of the format.
function readingErrors(turn) {
  const error = turn.parse_error;
  if (!error) return [];
  if (turn.actions?.length) return [["Not in the format: ", error]];
  if (!turn.unread || turn.unread === error) return [["Not understood: ", error]];
  return [["Not understood: ", turn.unread], ["Not in the format: ", error]];
}

function turnView(turn, index, total) {
  const card = make("div", "turn");
  card.append(make("h5", "", "Turn " + (index + 1) + " of " + total + (turn.model ? " · " + turn.model : "")), picturesView(turn.images));
  const body = make("div");
  if (turn.system) body.append(shownText(turn.system));
  body.append(shownText(turn.text));
  for (const [title, text] of readingErrors(turn)) body.append(errorView(title, text));
  for (const [name, title] of [["worker_error", "World failed: "], ["agent_error", "Model failed: "]]) {
    if (turn[name]) body.append(errorView(title, turn[name]));
  }
  if (turn.stop_reason !== "stop" && !turn.agent_error) body.append(errorView("Cut off: ", STOPPED[turn.stop_reason] ?? STOPPED.error));
  if (turn.thoughts) body.append(thoughtsView(turn.thoughts));
  const sections = Object.entries(turn.sections);
  const scores = turn.scores || {};
  if (sections.length) for (const [name, text] of sections) body.append(sectionView(name, text, turn.claims[name], scores[name]));
  else body.append(sectionView("raw-response", turn.response || "(nothing)", undefined));
  body.append(resultView(turn));
  card.append(body);
  return card;
}

// Reasoning that is no part of the response, as far as a provider shows it.
function thoughtsView(text) {
  const part = make("details", "part thoughts");
  part.append(make("summary", "", "thoughts, not part of the response"), make("div", "said", text));
  part.open = text.length < 600;
  return part;
}

function sectionView(name, text, claim, score) {
  const part = make("div", "part " + name);
  const title = make("b", "", name === "raw-response" ? "response, as it came" : name);
  const said = make("div", "said");
  part.append(title, said);
  const isTrue = score === undefined ? claim?.verdict === "same" : score >= 1;
  if (score !== undefined) {
    title.append(make("span", isTrue ? "same" : "differs", isTrue ? "true" : "judge: " + short(score) + " of 1"));
  } else if (claim && claim.verdict !== "unknown") {
    title.append(make("span", claim.verdict, claim.verdict === "same" ? "true" : "differs from the truth"));
  }
  if (!claim || isTrue) {
    said.textContent = text; // other words for the same thing are no mistake
    return part;
  }
  for (const [piece, differs] of claim.segments) said.append(differs ? make("mark", "", piece) : piece);
  if (claim.truth) {
    const truth = make("div", "truth");
    truth.append(make("b", "", "truth"), claim.truth);
    part.append(truth);
  }
  return part;
}

function resultView(turn) {
  const result = make("div", "result");
  const done = (turn.actions || []).join(", ") || "nothing";
  const left = turn.optimal_actions_left;
  let text = "Carried out: " + done;
  if (turn.actions?.length && turn.action_effective === false) text += ", without effect";
  if (left !== null && left !== undefined) text += ", which leaves " + left + " to go at best";
  if (turn.terminated) text += "; the world ended";
  if (turn.truncated) text += turn.agent_error ? "; the episode was given up" : "; out of turns";
  result.append(make("p", "note", text), chip("reward", turn.reward, "total"));
  for (const [name, value] of Object.entries(turn.reward_terms || {})) result.append(chip(name, value, "term"));
  for (const [name, value] of Object.entries(turn.shaping || {})) result.append(chip(name, value, "shaping"));
  const credit = turn.credit || {};
  for (const [name, title] of [["advantage", "advantage"], ["value", "value before"], ["logprob", "log-probability per token"]]) {
    if (credit[name] !== undefined && credit[name] !== null) result.append(chip(title, credit[name], "credit", short));
  }
  for (const [name, value] of Object.entries(turn.scores || {})) {
    if (!(name in turn.sections)) result.append(chip(name + " score", value, "credit", short));
  }
  for (const [name, value] of Object.entries(turn.usage || {})) result.append(chip(name, value, "usage", short));
  return result;
}

function finalView(final) {
  const card = make("div", "turn");
  const body = make("div");
  body.append(shownText(final.text));
  card.append(make("h5", "", "In the end"), picturesView(final.images), body);
  return card;
}

