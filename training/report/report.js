"use strict";
// Everything that a model or a world wrote reaches the page through textContent only.
const run = JSON.parse(document.getElementById("run").textContent);

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined && text !== null) element.textContent = String(text);
  return element;
}

// ---- Numbers -------------------------------------------------------------------------------------------

function short(value, scale) {
  if (value === null || value === undefined) return "–";
  let text;
  if (scale === "rate") text = (100 * value).toFixed(1).replace(/\.0$/, "") + "%";
  else if (value !== 0 && (Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3)) text = value.toExponential(1);
  else text = String(Number(value.toPrecision(3)));
  return text.replace("-", "−");
}

function signed(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const text = Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(2).replace(/0$/, "");
  return (value > 0 ? "+" : "") + text.replace("-", "−");
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
  const curve = panel.curves[0];
  if (!curve || !curve.xs.length) return;
  const index = nearest(curve.xs, iteration);
  const [low, high] = panel.x_span;
  for (const svg of figure.querySelectorAll("svg")) {
    const { width, left, right } = frameOf(svg);
    const x = left + ((curve.xs[index] - low) / (high - low)) * (width - left - right);
    const cursor = svg.querySelector(".cursor");
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.style.opacity = 0.35;
  }
  figure.querySelector("output").textContent = short(curve.ys[index], panel.scale) + " at " + curve.xs[index];
}

function rest(figure) {
  const output = figure.querySelector("output");
  output.textContent = output.dataset.last;
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

const labels = run.labels.filter((each) => each.episodes.length);
const byKey = new Map(labels.map((each) => [each, new Map(each.episodes.map((episode) => [episode.key, episode]))]));
// Evaluations come first in the list, episodes of training iterations after them.
const isTraining = (each) => /(^| · )training \d+$/.test(each.label);
const lastEvaluation = Math.max(0, labels.findLastIndex((each) => !isTraining(each)));
const view = {
  label: lastEvaluation,
  filter: "all",
  mistake: "",
  query: "",
  sideBySide: labels.length > 1 && window.innerWidth > 900,
  index: 0,
};

const FILTERS = [
  ["all", "All", () => true],
  ["solved", "Solved", (episode) => episode.success],
  ["failed", "Failed", (episode) => !episode.success],
  ["gained", "Newly solved", (episode, earlier) => earlier && episode.success && !earlier.success],
  ["lost", "Newly failed", (episode, earlier) => earlier && !episode.success && earlier.success],
];

// What a label is compared with: a run's first evaluation, or the other run's evaluation of the same name.
const besideOf = (index) => labels.find((each) => each.label === labels[index].beside);
const earlierOf = (episode) => (besideOf(view.label) ? byKey.get(besideOf(view.label)).get(episode.key) : undefined);
const filtersInUse = () => (besideOf(view.label) ? FILTERS : FILTERS.slice(0, 3));

// What a search looks through: everything a model wrote, and what names an episode.
const searched = new Map();
function haystack(episode) {
  if (!searched.has(episode)) {
    const said = episode.turns.map((turn) => [turn.response, turn.parse_error, (turn.actions || []).join(", ")].join("\n"));
    const blamed = episode.mistake ? episode.mistake.kind + " " + episode.mistake.detail : "solved";
    searched.set(episode, [episode.key, "seed " + episode.seed, blamed, ...said].join("\n").toLowerCase());
  }
  return searched.get(episode);
}

function chosen(filter, mistake = view.mistake) {
  const accepts = FILTERS.find(([name]) => name === filter)[2];
  const query = view.query.trim().toLowerCase();
  return labels[view.label].episodes.filter(
    (episode) =>
      accepts(episode, earlierOf(episode)) &&
      (!mistake || episode.mistake?.kind === mistake) &&
      (!query || haystack(episode).includes(query))
  );
}

function mistakesInUse() {
  const counts = new Map();
  for (const { mistake } of chosen(view.filter, "")) if (mistake) counts.set(mistake.kind, (counts.get(mistake.kind) || 0) + 1);
  return [...counts].sort((one, other) => other[1] - one[1]);
}

// Open on what training changed, where there is such an episode and something to compare it with.
function firstToShow() {
  if (!besideOf(view.label)) return 0;
  const gained = FILTERS.find(([name]) => name === "gained")[2];
  return Math.max(0, chosen("all").findIndex((episode) => gained(episode, earlierOf(episode))));
}

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
  const seen = chosen(view.filter)[view.index];
  Object.assign(view, changes);
  if (!filtersInUse().some(([name]) => name === view.filter)) view.filter = "all";
  if (view.mistake && !mistakesInUse().some(([kind]) => kind === view.mistake)) view.mistake = "";
  if (!("index" in changes)) {
    // Stay on the same level when the evaluation or the filter changes.
    const index = seen ? chosen(view.filter).findIndex((episode) => episode.key === seen.key) : 0;
    view.index = Math.max(0, index);
  }
  show();
}

function showControls() {
  const controls = document.getElementById("controls");
  const focused = controls.contains(document.activeElement) ? document.activeElement.dataset.value : undefined;
  controls.replaceChildren();
  if (labels.length > 1) {
    const names = labels.map((each, index) => [index, each.label]);
    controls.append(choice(names, view.label, (label) => set({ label })));
  }
  const filters = filtersInUse().map(([name, text]) => [name, text, chosen(name).length]);
  controls.append(choice(filters, view.filter, (filter) => set({ filter })));
  const mistakes = mistakesInUse();
  if (mistakes.length) {
    const kinds = [["", "Whatever went wrong"], ...mistakes.map(([kind, count]) => [kind, kind, count])];
    controls.append(choice(kinds, view.mistake, (mistake) => set({ mistake })));
  }
  if (besideOf(view.label)) {
    const layouts = [[false, "Alone"], [true, "Beside “" + besideOf(view.label).label + "”"]];
    controls.append(choice(layouts, view.sideBySide, (sideBySide) => set({ sideBySide })));
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
    if (index === view.index) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => set({ index }));
    strip.append(button);
  });
}

function show() {
  const { label, num_recorded, num_failed, episodes: shown } = labels[view.label];
  const episodes = chosen(view.filter);
  const episode = episodes[view.index];
  showControls();
  showStrip(episodes);
  document.getElementById("previous").disabled = view.index <= 0;
  document.getElementById("next").disabled = view.index >= episodes.length - 1;
  const numFailedShown = shown.filter((each) => !each.success).length;
  const rest =
    num_recorded > shown.length
      ? "; here are " + shown.length + " of " + num_recorded + " recorded, " + numFailedShown + " of " + num_failed + " failures among them"
      : "";
  document.getElementById("position").textContent =
    (episodes.length ? "Episode " + (view.index + 1) + " of " + episodes.length : "No such episode") + rest;
  const stage = make("div", "columns");
  stage.id = "stage";
  if (episode) {
    const earlier = view.sideBySide ? earlierOf(episode) : undefined;
    stage.classList.toggle("two", Boolean(earlier));
    if (earlier) stage.append(episodeView(earlier, besideOf(view.label).label));
    stage.append(episodeView(episode, label));
  }
  document.getElementById("stage").replaceWith(stage);
  remember(episode);
}

// ---- One episode has one address, which also survives the reloads of a live page -----------------------------------

function remember(episode) {
  if (!episode) return;
  const place = new URLSearchParams({ label: labels[view.label].label, episode: episode.key });
  if (view.filter !== "all") place.set("filter", view.filter);
  if (view.mistake) place.set("mistake", view.mistake);
  if (view.query) place.set("search", view.query);
  history.replaceState(null, "", "#" + place);
}

function recall() {
  const place = new URLSearchParams(location.hash.slice(1));
  if (!place.has("episode")) return false;
  const label = labels.findIndex((each) => each.label === place.get("label"));
  if (label < 0) return false;
  Object.assign(view, { label, mistake: place.get("mistake") ?? "", query: place.get("search") ?? "" });
  const filter = place.get("filter") ?? "all";
  view.filter = filtersInUse().some(([name]) => name === filter) ? filter : "all";
  let index = chosen(view.filter).findIndex((episode) => episode.key === place.get("episode"));
  if (index < 0) {
    Object.assign(view, { filter: "all", mistake: "", query: "" });
    index = chosen("all").findIndex((episode) => episode.key === place.get("episode"));
  }
  view.index = Math.max(0, index);
  document.getElementById("search").value = view.query;
  return index >= 0;
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
    const { kind, turn, detail } = episode.mistake;
    const mistake = make("p", "mistake", "Went wrong first: " + kind + (turn === null ? "" : " in turn " + (turn + 1)) + " ");
    mistake.append(make("small", "", detail));
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
  for (const [name, title] of [["advantage", "advantage"], ["value", "value before"], ["logprob", "log-probability a token"]]) {
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

function go(step) {
  const index = view.index + step;
  if (index >= 0 && index < chosen(view.filter).length) set({ index });
}

if (labels.length) {
  document.getElementById("previous").addEventListener("click", () => go(-1));
  document.getElementById("next").addEventListener("click", () => go(1));
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.target.id === "search") return;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    go(step);
  });
  document.getElementById("search").addEventListener("input", (event) => set({ query: event.target.value }));
  window.addEventListener("hashchange", () => recall() && show());
  if (!recall()) view.index = firstToShow();
  show();
}

if (run.reload_s) setTimeout(() => location.reload(), 1000 * run.reload_s);
