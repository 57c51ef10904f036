// Every episode of a board.

const browsing = new BoardBrowsing(payload.labels);
const files = new EpisodeFiles(browsing.labels);

// What a file of episodes calls once it is loaded.
function loadEpisodes(number, content) {
  files.take(number, content);
  for (const [place, episode] of files.byPlace) if (Math.floor(place / files.perFile) === number) browsing.searched.delete(episode);
}
const byId = (id) => document.getElementById(id);
// Until something is chosen, the address stays as it is.
let isAddressed = false;

function set(changes) {
  browsing.change(changes);
  showChosen();
}

function showChosen() {
  isAddressed = true;
  show();
}

// ---- What is chosen --------------------------------------------------------------------------------------

function picker(title, options, current, onChoose) {
  const label = make("label", "", title);
  const select = make("select");
  for (const [value, text] of options) select.append(new Option(text, value));
  select.value = current;
  select.addEventListener("change", () => onChoose(select.value));
  label.append(select);
  return label;
}

function keepingFocus(element, makeChildren) {
  const place = [...element.querySelectorAll("button, select")].indexOf(document.activeElement);
  element.replaceChildren(...makeChildren());
  if (place >= 0) element.querySelectorAll("button, select")[place]?.focus();
}

const STOP_NAMES = { length: "token limit", context: "limit of the model", content_filter: "refused", tool_call: "unoffered tool", error: "no response" };

function placesView() {
  const { agent, world } = browsing.here();
  const agents = browsing.ofWorld().map((each) => each.agent);
  const worlds = browsing.worlds();
  const pickers = [
    picker("Agent", agents.map((name) => [name, name]), agent, (name) => set({ label: browsing.labelOf(name, world) })),
    picker("beside", [["", "nobody"], ...agents.filter((name) => name !== agent).map((name) => [name, name])], browsing.beside()?.agent ?? "", (rival) => set({ rival })),
  ];
  const stops = browsing.stops();
  if (stops.length) {
    const reasons = stops.map(([reason, number]) => [reason, (STOP_NAMES[reason] ?? reason.replaceAll("_", " ")) + " (" + number + ")"]);
    pickers.push(picker("Stop reason", [["", "any"], ...reasons], browsing.stop, (stop) => set({ stop })));
  }
  const orders = browsing.orders();
  if (orders.length > 1) pickers.push(picker("Sort by", orders, browsing.order, (order) => set({ order })));
  if (worlds.length > 1) {
    pickers.unshift(picker("World", worlds.map((name) => [name, name]), world, (name) => set({ label: browsing.labelOf(agent, name) })));
  }
  return pickers;
}

function controlsView() {
  const groups = [choice(browsing.filters(), browsing.filter, (filter) => set({ filter }))];
  const mistakes = browsing.mistakes();
  if (mistakes.length) {
    const kinds = [["", "All mistakes"], ...mistakes.map(([kind, count]) => [kind, kind, count])];
    groups.push(choice(kinds, browsing.mistake, (mistake) => set({ mistake })));
  }
  return groups;
}

// ---- All agents on the chosen levels ---------------------------------------------------------------------

function outcomeOf(episode) {
  if (!episode) return ["unplayed", "not played"];
  if (episode.error) return ["failure", "ended by a provider’s failure"];
  return episode.success ? ["solved", "solved"] : ["", "not solved: " + (episode.mistake?.kind ?? "")];
}

function levelButton(label, key, seed, index, isHere) {
  const episode = browsing.byKey.get(label).get(key);
  const [className, outcome] = outcomeOf(episode);
  const button = make("button", "level " + className);
  button.type = "button";
  button.title = label.agent + ", " + levelName(seed) + ", " + outcome;
  button.setAttribute("aria-label", button.title);
  if (!episode) button.disabled = true;
  else if (!episode.turns.length) button.classList.add("brief");
  const isChosen = index === browsing.index;
  button.tabIndex = isChosen && isHere ? 0 : -1;
  if (isChosen && isHere) button.setAttribute("aria-current", "true");
  else if (isChosen) button.classList.add("beneath");
  button.addEventListener("click", () => {
    browsing.change({ label: browsing.labels.indexOf(label) });
    browsing.find(key);
    showChosen();
  });
  return button;
}

function showMap() {
  const map = byId("map");
  const hadFocus = map.contains(document.activeElement);
  const scrolled = map.scrollLeft;
  const chosen = browsing.chosen();
  const room = map.clientWidth - 190;
  map.style.setProperty("--width", Math.max(6, Math.min(16, Math.floor(room / Math.max(1, chosen.length)) - 2)) + "px");
  map.replaceChildren(
    ...browsing.ofWorld().map((label) => {
      const isHere = label === browsing.here();
      const line = make("div", isHere ? "line here" : "line");
      const name = make("button", "name", label.agent);
      if (browsing.isNarrowed()) name.append(make("small", "", browsing.chosen({ of: label }).length));
      name.type = "button";
      name.title = label.agent;
      name.addEventListener("click", () => set({ label: browsing.labels.indexOf(label) }));
      line.append(name, ...chosen.map(({ key, seed }, index) => levelButton(label, key, seed, index, isHere)));
      return line;
    })
  );
  map.scrollLeft = scrolled;
  const current = map.querySelector('[aria-current="true"]');
  if (!current) return;
  const left = current.offsetLeft - map.offsetLeft;
  if (left < map.scrollLeft + 190 || left > map.scrollLeft + map.clientWidth - 30) map.scrollLeft = left - map.clientWidth / 2;
  if (hadFocus) current.focus({ preventScroll: true });
}

// ---- The episode -----------------------------------------------------------------------------------------

function boardEpisodeView(episode, label) {
  const shown = { ...episode, mistake: episode.error ? null : episode.mistake };
  const article = episodeView(shown, label.agent);
  const header = article.querySelector("header");
  header.querySelector("h4").title = label.agent;
  const command = payload.commands[episode.world];
  if (command) {
    const hint = make("p", "command", "Play this level: ");
    hint.append(make("code", "", command + " --seed " + episode.seed));
    header.insertBefore(hint, header.querySelector(".question, .mistake, .error"));
  }
  if (!files.has(episode)) {
    const number = files.numberOf(episode);
    article.append(
      files.missing.has(number)
        ? make("p", "error", "The file " + files.pathOf(number) + " is missing; python -m benchmarks page BOARD writes it.")
        : make("p", "note", "Loading …")
    );
  }
  episode.turns.forEach((turn, index) => {
    const measures = article.querySelectorAll(".turn")[index].querySelector(".measures");
    if (turn.regret !== null && turn.regret !== undefined) measures.prepend(chip("regret", turn.regret, "regret", short));
  });
  return article;
}

// Loads what the shown episodes and the search need, then shows it, unless something else has been chosen since.
let numShown = 0;
function loadThenShow(episodes) {
  const searched = browsing.query.trim() ? browsing.ofWorld().flatMap((label) => label.episodes) : [];
  const needed = files.numbers([...episodes, ...searched]).filter((number) => !files.loaded.has(number) && !files.missing.has(number));
  if (!needed.length) return;
  const now = numShown;
  const key = browsing.episode()?.key;
  if (searched.length) byId("position").textContent = "Searching …";
  Promise.all(needed.map((number) => files.loadFile(number))).then(() => {
    if (now !== numShown) return;
    browsing.stayOn(key);
    show();
  });
}

function show() {
  numShown += 1;
  const episode = browsing.episode();
  keepingFocus(byId("pickers"), placesView);
  keepingFocus(byId("controls"), controlsView);
  showMap();
  byId("previous").disabled = browsing.index <= 0;
  byId("next").disabled = browsing.index >= browsing.chosen().length - 1;
  byId("position").textContent = browsing.position();
  const stage = make("div", "columns");
  stage.id = "stage";
  if (browsing.missing) stage.append(make("p", "error", browsing.missing));
  if (episode) {
    const other = browsing.other(episode);
    stage.classList.toggle("two", Boolean(other));
    stage.append(boardEpisodeView(episode, browsing.here()));
    if (other) stage.append(boardEpisodeView(other, browsing.beside()));
  }
  byId("stage").replaceWith(stage);
  loadThenShow([episode, episode && browsing.other(episode)].filter(Boolean));
  if (isAddressed) history.replaceState(null, "", browsing.toAddress());
}

// ---- Keys and addresses ----------------------------------------------------------------------------------

const ACTIONS = {
  ArrowLeft: () => browsing.go(-1),
  ArrowRight: () => browsing.go(1),
  k: () => browsing.go(-1),
  j: () => browsing.go(1),
  a: () => browsing.nextAgent(),
};

function follow() {
  const isOurs = browsing.follow(location.hash);
  byId("search").value = browsing.query;
  return isOurs;
}

function onKey(event) {
  if (event.altKey || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "/") byId("search").focus();
  else if (event.key === "?") byId("help").showModal();
  else if (event.key in ACTIONS) {
    ACTIONS[event.key]();
    showChosen();
  } else return;
  event.preventDefault();
}

if (browsing.labels.length) {
  const pickers = make("div");
  pickers.id = "pickers";
  const search = make("input");
  Object.assign(search, { id: "search", type: "search", placeholder: "Search responses and seeds" });
  search.setAttribute("aria-label", "Search episodes");
  byId("places").append(pickers, search);
  search.addEventListener("input", () => set({ query: search.value }));
  for (const [id, key] of [["previous", "ArrowLeft"], ["next", "ArrowRight"]]) {
    byId(id).addEventListener("click", () => {
      ACTIONS[key]();
      showChosen();
    });
  }
  document.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", () => {
    if (!follow()) return;
    showChosen();
    byId("episodes").scrollIntoView();
  });
  isAddressed = follow();
  show();
  if (isAddressed) byId("episodes").scrollIntoView();
}
