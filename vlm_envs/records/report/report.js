// Everything that a model or a world wrote reaches the page through textContent only.
const run = JSON.parse(document.getElementById("run").textContent);

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined && text !== null) element.textContent = String(text);
  return element;
}

// ---- Curves: one cursor for all graphs that share an axis ------------------------------------------------------

function nearest(xs, x) {
  let best = 0;
  for (let i = 1; i < xs.length; i++) if (Math.abs(xs[i] - x) < Math.abs(xs[best] - x)) best = i;
  return best;
}

function frameOf(svg) {
  return { width: svg.viewBox.baseVal.width, left: Number(svg.dataset.left), right: Number(svg.dataset.right) };
}

function readAt(figure, panel, iteration) {
  const known = panel.curves.flatMap((curve) => curve.xs);
  if (!known.length) return;
  const at = known[nearest(known, iteration)];
  const [low, high] = panel.x_span;
  for (const svg of figure.querySelectorAll("svg")) {
    const { width, left, right } = frameOf(svg);
    const x = left + ((at - low) / (high - low)) * (width - left - right);
    const cursor = svg.querySelector(".cursor");
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.style.opacity = 0.35;
  }
  figure.querySelectorAll("output span").forEach((number, place) => {
    const { xs, ys } = panel.curves[place];
    number.textContent = short(ys[xs.indexOf(at)], panel.scale);
  });
  figure.querySelector("output small").textContent = " at " + at;
}

function rest(figure) {
  for (const number of figure.querySelectorAll("output span")) number.textContent = number.dataset.last;
  figure.querySelector("output small").textContent = "";
  for (const cursor of figure.querySelectorAll(".cursor")) cursor.style.opacity = 0;
}

const figures = [...document.querySelectorAll("figure[data-panel]")];
const isColdStart = (panel) => panel.group === "Cold start";
for (const figure of figures) {
  const panel = run.panels[figure.dataset.panel];
  const siblings = figures.filter((other) => isColdStart(run.panels[other.dataset.panel]) === isColdStart(panel));
  for (const svg of figure.querySelectorAll("svg")) {
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const { width, left, right } = frameOf(svg);
      const share = (((event.clientX - box.left) / box.width) * width - left) / (width - left - right);
      const iteration = panel.x_span[0] + Math.min(1, Math.max(0, share)) * (panel.x_span[1] - panel.x_span[0]);
      for (const other of siblings) readAt(other, run.panels[other.dataset.panel], iteration);
    });
    svg.addEventListener("pointerleave", () => siblings.forEach(rest));
  }
}

// ---- Trajectories --------------------------------------------------------------------------------------

const browsing = new Browsing(run.labels, window.innerWidth <= 900);

function choice(options, current, onChoose) {
  const group = make("div", "choice");
  for (const [value, text, count] of options) {
    const button = make("button", "", text);
    button.type = "button";
    button.dataset.value = value;
    button.setAttribute("aria-pressed", String(value === current));
    if (count !== undefined) button.append(make("small", "", count));
    button.addEventListener("click", () => onChoose(value));
    group.append(button);
  }
  return group;
}

function set(changes) {
  browsing.change(changes);
  show();
}

function showControls() {
  const controls = document.getElementById("controls");
  const focused = controls.contains(document.activeElement) ? document.activeElement.dataset.value : undefined;
  controls.replaceChildren();
  if (browsing.labels.length > 1) {
    const names = browsing.labels.map((each, index) => [index, each.label]);
    controls.append(choice(names, browsing.label, (label) => set({ label })));
  }
  controls.append(choice(browsing.filters(), browsing.filter, (filter) => set({ filter })));
  const mistakes = browsing.mistakes();
  if (mistakes.length) {
    const kinds = [["", "Whatever went wrong"], ...mistakes.map(([kind, count]) => [kind, kind, count])];
    controls.append(choice(kinds, browsing.mistake, (mistake) => set({ mistake })));
  }
  if (browsing.beside()) {
    const layouts = [[true, "Alone"], [false, "Beside “" + browsing.beside().label + "”"]];
    controls.append(choice(layouts, browsing.isAlone, (isAlone) => set({ isAlone })));
  }
  // Controls are made anew each time; the keyboard user's place must not be lost.
  if (focused !== undefined) {
    [...controls.querySelectorAll("button")].find((button) => button.dataset.value === focused)?.focus();
  }
}

function showStrip(episodes) {
  const strip = document.getElementById("strip");
  strip.replaceChildren();
  episodes.forEach((episode, index) => {
    const button = make("button", episode.success ? "solved" : "");
    button.type = "button";
    button.title = "Seed " + episode.seed + (episode.success ? ", solved" : ", failed: " + (episode.mistake?.kind ?? ""));
    button.setAttribute("aria-label", button.title);
    if (index === browsing.index) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => set({ index }));
    strip.append(button);
  });
}

function show() {
  const episodes = browsing.chosen();
  const episode = browsing.episode();
  showControls();
  showStrip(episodes);
  document.getElementById("previous").disabled = browsing.index <= 0;
  document.getElementById("next").disabled = browsing.index >= episodes.length - 1;
  document.getElementById("position").textContent = browsing.position();
  const stage = make("div", "columns");
  stage.id = "stage";
  if (browsing.missing) stage.append(make("p", "error", browsing.missing));
  if (episode) {
    const other = browsing.isAlone ? undefined : browsing.other(episode);
    stage.classList.toggle("two", Boolean(other));
    if (other) stage.append(episodeView(other, browsing.beside().label));
    stage.append(episodeView(episode, browsing.here().label));
  }
  document.getElementById("stage").replaceWith(stage);
  history.replaceState(null, "", browsing.toAddress());
}

function follow() {
  const isOurs = browsing.follow(location.hash);
  document.getElementById("search").value = browsing.query;
  return isOurs;
}

function episodeView(episode, label) {
  const article = make("article", "episode");
  const header = make("header");
  header.append(make("h4", "", label));
  header.append(make("span", episode.success ? "outcome solved" : "outcome", episode.success ? "Solved" : "Failed"));
  const turns = episode.turns.length + (episode.turns.length === 1 ? " turn" : " turns");
  header.append(
    make("span", "note", (episode.world || episode.env_id) + ", seed " + episode.seed + ", " + turns + ", reward " + short(episode.total_reward))
  );
  if (episode.mistake) {
    const mistake = make("p", "mistake", blame(episode.mistake) + " ");
    mistake.append(make("small", "", episode.mistake.detail));
    header.append(mistake);
  }
  article.append(header);
  episode.turns.forEach((turn, index) => {
    const card = turnView(turn, index, episode.turns.length);
    card.classList.toggle("first-mistake", episode.mistake?.turn === index);
    article.append(card);
  });
  article.append(finalView(episode.final));
  return article;
}

function picturesView(names) {
  const pictures = make("div", "pictures");
  for (const name of names) {
    if (!run.images[name]) {
      pictures.append(make("div", "missing", "Picture not in the run directory"));
      continue;
    }
    const image = make("img");
    image.src = run.images[name];
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

function turnView(turn, index, total) {
  const card = make("div", "turn");
  card.append(make("h5", "", "Turn " + (index + 1) + " of " + total), picturesView(turn.images));
  const body = make("div");
  body.append(shownText(turn.text));
  for (const [name, title] of [["parse_error", "Not understood: "], ["worker_error", "World failed: "]]) {
    if (!turn[name]) continue;
    const error = make("p", "error");
    error.append(make("b", "", title), turn[name]);
    body.append(error);
  }
  if (turn.stop_reason !== "stop") {
    const error = make("p", "error");
    const reason = turn.stop_reason === "length" ? "the response hit the token limit" : "no response could be had";
    error.append(make("b", "", "Cut off: "), reason);
    body.append(error);
  }
  const sections = Object.entries(turn.sections);
  const scores = turn.scores || {};
  if (sections.length) for (const [name, text] of sections) body.append(sectionView(name, text, turn.claims[name], scores[name]));
  else body.append(sectionView("raw-response", turn.response || "(nothing)", undefined));
  body.append(resultView(turn));
  card.append(body);
  return card;
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

function chip(name, value, kind, written = signed) {
  const sign = value > 0 ? " plus" : value < 0 ? " minus" : "";
  const element = make("span", "chip " + kind + sign, name.replaceAll("_", " "));
  element.append(make("b", "", written(value)));
  return element;
}

function resultView(turn) {
  const result = make("div", "result");
  const done = (turn.actions || []).join(", ") || "nothing";
  const left = turn.optimal_actions_left;
  let text = "Carried out: " + done;
  if (turn.actions?.length && turn.action_effective === false) text += ", without effect";
  if (left !== null && left !== undefined) text += ", which leaves " + left + " to go at best";
  if (turn.terminated) text += "; the world ended";
  if (turn.truncated) text += "; out of turns";
  result.append(make("p", "note", text), chip("reward", turn.reward, "total"));
  for (const [name, value] of Object.entries(turn.reward_terms || {})) result.append(chip(name, value, "term"));
  for (const [name, value] of Object.entries(turn.shaping || {})) result.append(chip(name, value, "shaping"));
  const credit = turn.credit || {};
  for (const [name, title] of [["advantage", "advantage"], ["value", "value before"], ["logprob", "log-probability per token"]]) {
    if (credit[name] !== undefined && credit[name] !== null) result.append(chip(title, credit[name], "credit", short));
  }
  return result;
}

function finalView(final) {
  const card = make("div", "turn");
  const body = make("div");
  body.append(shownText(final.text));
  card.append(make("h5", "", "In the end"), picturesView(final.images), body);
  return card;
}

let typedAt = 0;

if (browsing.labels.length) {
  const go = (step) => {
    browsing.go(step);
    show();
  };
  document.getElementById("previous").addEventListener("click", () => go(-1));
  document.getElementById("next").addEventListener("click", () => go(1));
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.target.id === "search") return;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    go(step);
  });
  document.getElementById("search").addEventListener("input", (event) => {
    typedAt = Date.now();
    set({ query: event.target.value });
  });
  window.addEventListener("hashchange", () => follow() && show());
  follow();
  show();
}

function reload() {
  // Whoever is typing would lose the cursor
  if (Date.now() - typedAt < 5000) setTimeout(reload, 1000);
  else location.reload();
}

if (run.reload_s) setTimeout(reload, 1000 * run.reload_s);
