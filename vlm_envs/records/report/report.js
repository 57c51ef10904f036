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
  const panel = payload.panels[figure.dataset.panel];
  const siblings = figures.filter((other) => isColdStart(payload.panels[other.dataset.panel]) === isColdStart(panel));
  for (const svg of figure.querySelectorAll("svg")) {
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const { width, left, right } = frameOf(svg);
      const share = (((event.clientX - box.left) / box.width) * width - left) / (width - left - right);
      const iteration = panel.x_span[0] + Math.min(1, Math.max(0, share)) * (panel.x_span[1] - panel.x_span[0]);
      for (const other of siblings) readAt(other, payload.panels[other.dataset.panel], iteration);
    });
    svg.addEventListener("pointerleave", () => siblings.forEach(rest));
  }
}

// ---- Trajectories --------------------------------------------------------------------------------------

const browsing = new Browsing(payload.labels, window.innerWidth <= 900);

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
    const kinds = [["", "All mistakes"], ...mistakes.map(([kind, count]) => [kind, kind, count])];
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
    button.title = levelName(episode.seed) + (episode.success ? ", solved" : ", failed: " + (episode.mistake?.kind ?? ""));
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
  remember(browsing.toAddress());
}

// Links to sections keep what is chosen, so that the browser's Back button restores it there, too.
function remember(address) {
  history.replaceState({ chosen: browsing.toAddress() }, "", address);
}

function follow() {
  const isOurs = browsing.follow(history.state?.chosen ?? location.hash);
  document.getElementById("search").value = browsing.query;
  return isOurs;
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
    if (document.querySelector("dialog[open]")) return;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    go(step);
  });
  document.getElementById("search").addEventListener("input", (event) => {
    typedAt = Date.now();
    set({ query: event.target.value });
  });
  window.addEventListener("hashchange", () => {
    const address = location.hash;
    const isGoingBack = Boolean(history.state?.chosen);
    if (follow()) show();
    if (!new URLSearchParams(address.slice(1)).has("label")) remember(address);
    else if (!isGoingBack) document.getElementById("episodes").scrollIntoView();
  });
  follow();
  show();
}

function reload() {
  // Whoever is typing would lose the cursor
  if (Date.now() - typedAt < 5000) setTimeout(reload, 1000);
  else location.reload();
}

if (payload.reload_s) setTimeout(reload, 1000 * payload.reload_s);
