// One episode, turn by turn.

// Why a response is incomplete: a heading, and what to say if the server said nothing.
const STOPPED = {
  length: ["Cut off: ", "the response hit the token limit"],
  context: ["Ran out of context: ", "the request exceeded a limit of the model"],
  content_filter: ["Refused: ", "the model or its provider refused to answer"],
  tool_call: ["Cut off: ", "the model called a tool that it was not offered"],
  error: ["Cut off: ", "there is no response"],
};
// Of these there is no response to read.
const WITHOUT_RESPONSE = ["context", "content_filter"];

function episodeView(episode, label) {
  const article = make("article", "episode");
  const header = make("header");
  header.append(make("h4", "", label));
  header.append(make("span", episode.success ? "outcome solved" : "outcome", episode.error ? "Not counted" : episode.success ? "Solved" : "Failed"));
  const numTurns = episode.num_turns ?? episode.turns.length;
  const turns = numTurns + (numTurns === 1 ? " turn" : " turns");
  header.append(
    breakable("span", "note", (episode.world || episode.env_id) + ", " + levelName(episode.seed) + ", " + turns + ", reward " + short(episode.total_reward))
  );
  if (episode.question) header.append(questionView(episode.question));
  if (episode.mistake) {
    const mistake = make("p", "mistake", blame(episode.mistake) + " ");
    mistake.append(make("small", "", episode.mistake.detail));
    header.append(mistake);
  }
  if (episode.error) header.append(errorView("Ended by a failure: ", episode.error));
  article.append(header);
  article.classList.toggle("question-episode", Boolean(episode.question));
  let numShown = 0;
  episode.turns.forEach((turn, index) => {
    const card = turnView(turn, index, episode, numShown);
    numShown += turn.images.length;
    card.classList.toggle("first-mistake", episode.mistake?.turn === index);
    article.append(card);
  });
  const hasMore = episode.final && (episode.final.images.length || !episode.question);
  if (hasMore) article.append(finalView(episode.final, episode.question, numShown));
  return article;
}

// The question as the episode's headline, its options, and both answers.
function questionView(question) {
  const view = make("div", "question");
  view.append(make("p", question.text.length > 160 ? "asked long" : "asked", question.text));
  for (const [name, text] of question.texts) {
    const quoted = make("p", "quoted");
    quoted.append(make("b", "", name), text);
    view.append(quoted);
  }
  if (question.options.length) {
    const options = make("ul", "options");
    for (const option of question.options) {
      const item = make("li", "", option);
      if (option === question.correct) item.classList.add("correct");
      if (option === question.answered) item.classList.add("answered");
      options.append(item);
    }
    view.append(options);
  }
  const answers = make("p", "answers");
  const answered = make("span", "", question.answered === null ? "no answer" : "answered ");
  if (question.answered !== null) answered.append(make("b", "", question.answered));
  const correct = make("span", "", " · correct ");
  correct.append(make("b", "", question.correct));
  answers.append(answered, correct);
  if (question.pages.length) answers.append(make("span", "", " · on page " + question.pages.join(", ")));
  view.append(answers);
  return view;
}

function errorView(title, text) {
  const error = make("p", "error");
  error.append(make("b", "", title), text);
  return error;
}

// The images of one moment. Those of a question are numbered through the episode, as its tool calls name them.
function picturesView(names, question, numShown) {
  const pictures = make("div", "pictures");
  names.forEach((name, place) => {
    const index = numShown + place;
    const marks = (question?.marks ?? []).filter((mark) => mark.image === index);
    pictures.append(imageView(name, question ? { caption: "Image " + (index + 1), marks } : {}));
  });
  return pictures;
}

function shownText(text) {
  if (!text) return "";
  if (text.length < 240) return make("p", "shown", text);
  const details = make("details", "shown");
  details.append(make("summary", "", text.trim().split("\n")[0]), make("div", "", text));
  return details;
}

// What is wrong with a response: why it had no action, if it had none, and what was out of the format.
function readingErrors(turn) {
  const error = turn.parse_error;
  if (!error || (WITHOUT_RESPONSE.includes(turn.stop_reason) && !turn.response)) return [];
  if (turn.actions?.length) return [["Not in the format: ", error]];
  if (!turn.unread || turn.unread === error) return [["Not understood: ", error]];
  return [["Not understood: ", turn.unread], ["Not in the format: ", error]];
}

function turnView(turn, index, episode, numShown) {
  const card = make("div", "turn");
  const title = "Turn " + (index + 1) + " of " + episode.turns.length + (turn.model ? " · " + turn.model : "");
  card.append(make("h5", "", title), picturesView(turn.images, episode.question, numShown));
  const body = make("div");
  if (turn.system) body.append(shownText(turn.system));
  body.append(episode.question ? foldedView(index ? "Reply of the world" : "Prompt", turn.text) : shownText(turn.text));
  for (const [title, text] of readingErrors(turn)) body.append(errorView(title, text));
  for (const [name, title] of [["worker_error", "World failed: "], ["agent_error", "Model failed: "]]) {
    if (turn[name]) body.append(errorView(title, turn[name]));
  }
  if (turn.stop_reason !== "stop" && !turn.agent_error) {
    const [title, reason] = STOPPED[turn.stop_reason] ?? STOPPED.error;
    body.append(errorView(title, turn.stop_detail || reason));
  }
  if (turn.thoughts) body.append(thoughtsView(turn.thoughts));
  const sections = Object.entries(turn.sections).filter(([name]) => !turn.call || name !== "tool_call");
  const scores = turn.scores || {};
  if (sections.length) for (const [name, text] of sections) body.append(sectionView(name, text, turn.claims[name], scores[name]));
  else if (!turn.call) body.append(sectionView("raw-response", turn.response || "(nothing)", undefined));
  if (turn.call) body.append(callView(turn));
  for (const [name, title] of FOLDED) if (turn[name]) body.append(foldedView(title, turn[name]));
  body.append(resultView(turn, Boolean(episode.question)));
  card.append(body);
  return card;
}

// A tool call as a sentence; as it was written only on request.
function callView(turn) {
  const part = make("div", "part tool-call");
  part.append(make("b", "", "tool call"), make("div", "said call", turn.call.sentence + "."));
  if (turn.call.refused) part.append(errorView("Refused: ", turn.call.refused));
  const isRead = Object.keys(turn.sections).length > 0;
  const written = turn.sections.tool_call ?? (isRead ? "" : turn.response);
  if (written) part.append(foldedView("As written", written));
  return part;
}

// What only auditors read.
const FOLDED = [["summary", "Summary"], ["request", "Request as sent"], ["raw", "Raw reply"]];

function foldedView(title, content) {
  const details = make("details", "folded");
  details.append(make("summary", "", title), make("pre", "", content));
  return details;
}

// Reasoning that is no part of the response, as far as a provider shows it.
function thoughtsView(text) {
  const part = make("details", "part thoughts");
  part.append(make("summary", "", "thoughts, not part of the response"), make("div", "said", text));
  part.open = text.length < 600;
  return part;
}

function verdictText(claim, text) {
  if (claim.verdict === "same") return "true";
  return text.trim() ? "differs from the truth" : "states nothing";
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
    title.append(make("span", claim.verdict, verdictText(claim, text)));
  }
  if (!claim || isTrue) {
    said.textContent = text; // other words for the same thing are no mistake
    return part;
  }
  for (const [piece, differs] of claim.segments ?? [[text, false]]) said.append(differs ? make("mark", "", piece) : piece);
  if (claim.truth) {
    const truth = make("div", "truth");
    truth.append(make("b", "", "truth"), claim.truth);
    part.append(truth);
  }
  return part;
}

function outcomeText(turn, isQuestion) {
  const done = (turn.actions || []).join(", ") || "nothing";
  const left = turn.optimal_actions_left;
  const isOver = turn.terminated || turn.truncated;
  let text = "Carried out: " + done;
  if (isQuestion) text = turn.call ? "" : turn.terminated ? "Answered: " + done : "Carried out: nothing";
  if (!turn.call && turn.actions?.length && turn.action_effective === false) text += ", without effect";
  if (!isOver && !isQuestion && left !== null && left !== undefined) text += ", which leaves " + left + " to go at best";
  if (turn.terminated && !isQuestion) text += "; the world ended";
  if (turn.truncated) text += turn.agent_error ? "; the episode was given up" : turn.stop_reason === "context" ? "; out of context" : "; out of turns";
  return text.replace(/^; o/, "O").replace(/^; t/, "T");
}

function resultView(turn, isQuestion) {
  const result = make("div", "result");
  const text = outcomeText(turn, isQuestion);
  if (text) result.append(make("p", "note", text));
  result.append(rewardView(turn));
  // What is no reward stands in a line of its own, without the colors of rewards
  const measures = make("div", "measures");
  const credit = turn.credit || {};
  for (const [name, title] of [["advantage", "advantage"], ["value", "value before"], ["logprob", "log-probability per token"]]) {
    if (credit[name] !== undefined && credit[name] !== null) measures.append(chip(title, credit[name], "credit", short));
  }
  for (const [name, value] of Object.entries(turn.scores || {})) {
    if (!(name in turn.sections)) measures.append(chip(name + " score", value, "credit", short));
  }
  for (const [name, value] of Object.entries(turn.usage || {})) if (value) measures.append(chip(name, value, "usage", short));
  result.append(measures);
  return result;
}

// All terms of a turn's reward, with their sum. A value that was not a finite number is null, and so is the sum then.
function rewardView(turn) {
  const terms = turn.reward_terms ?? []; // until the episode is loaded
  const isJudged = terms.some((term) => !["env", "format"].includes(term.source));
  const table = make("table", "terms");
  table.append(make("thead"), make("tbody"), make("tfoot"));
  if (terms.length) {
    const head = make("tr");
    for (const title of ["reward term", "source", "weight", "value"]) head.append(make("th", "", title));
    table.tHead.append(head);
  }
  for (const term of terms) {
    const weight = term.weight === null ? "" : short(term.weight);
    table.tBodies[0].append(rewardRow([term.name.replaceAll("_", " "), term.source, weight], term.value));
  }
  table.tFoot.append(rewardRow([isJudged ? "environment reward" : "reward", "", ""], turn.reward));
  if (isJudged) {
    const isKnown = terms.every((term) => term.value !== null);
    const total = isKnown ? terms.reduce((sum, term) => sum + term.value, 0) : null;
    table.tFoot.append(rewardRow(["total reward", "", ""], total));
  }
  return table;
}

function rewardRow(cells, value) {
  const row = make("tr");
  for (const cell of cells) row.append(breakable("td", "", cell));
  row.append(make("td", value > 0 ? "plus" : value < 0 ? "minus" : "", signed(value)));
  return row;
}

function finalView(final, question, numShown) {
  const card = make("div", "turn");
  const body = make("div");
  body.append(shownText(final.text));
  card.append(make("h5", "", "In the end"), picturesView(final.images, question, numShown), body);
  return card;
}

