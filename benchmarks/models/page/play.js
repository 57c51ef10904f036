// A level that the reader plays: the same start, the same rules, the same pictures.

const KEYS = { ArrowUp: 0, ArrowDown: 1, ArrowLeft: 2, ArrowRight: 3, w: 0, s: 1, a: 2, d: 3 };

class Game {
  constructor(rules, level) {
    this.rules = rules;
    this.level = level;
    this.history = [level.drawing];
  }

  get drawing() {
    return this.history.at(-1);
  }

  // Every action counts, as the world counts it, also one that changes nothing.
  get numMoves() {
    return this.history.length - 1;
  }

  get ending() {
    if (this.rules.isSolved(this.drawing)) return "solved";
    return this.rules.isLost(this.drawing) ? "lost" : "";
  }

  move(direction) {
    if (!this.ending) this.history.push(this.rules.move(this.drawing, direction));
  }

  undo() {
    if (this.numMoves) this.history.pop();
  }

  restart() {
    this.history.length = 1;
  }
}

const playing = document.getElementById("play");
let game, world, others;

function plural(number, what) {
  return number + " " + what + (number === 1 ? "" : "s");
}

function statusText() {
  const { optimal } = game.level;
  const best = optimal === null ? "" : " " + plural(optimal, "move") + (optimal === 1 ? " is" : " are") + " the least.";
  if (game.ending === "solved") {
    const isBest = game.numMoves === optimal;
    const text = isBest ? "Solved in " + plural(game.numMoves, "move") + ", as few as can be." : "Solved in " + plural(game.numMoves, "move") + "." + best;
    return text + others;
  }
  if (game.ending === "lost") return "Lost in move " + game.numMoves + "." + best + others;
  const beyond = game.numMoves > world.budget ? " That is more than the " + world.budget + " that agents have." : " Agents have " + plural(world.budget, "move") + ".";
  return plural(game.numMoves, "move") + " so far." + beyond;
}

function drawGame() {
  const board = document.getElementById("play-board");
  const rows = game.drawing.split("\n");
  board.style.gridTemplateColumns = "repeat(" + rows[0].length + ", 1fr)";
  const symbols = rows.join("");
  if (board.childElementCount !== symbols.length) board.replaceChildren(...[...symbols].map(() => make("img")));
  [...symbols].forEach((symbol, index) => {
    const image = board.children[index];
    if (image.dataset.symbol === symbol && image.src === world.tiles[symbol]) return;
    Object.assign(image, { src: world.tiles[symbol], alt: "", draggable: false });
    image.dataset.symbol = symbol;
  });
  board.setAttribute("aria-label", "The level as rows of symbols: " + rows.join(" / "));
  const status = document.getElementById("play-status");
  status.textContent = statusText();
  status.className = game.ending;
}

// Opens a level; `rivals` are lines about those who played it.
function play(levels, level, title, rivals) {
  world = levels;
  others = rivals.length ? " " + rivals.join("; ") + "." : "";
  game = new Game(GRIDS[levels.rules], level);
  document.getElementById("play-title").textContent = title;
  document.getElementById("play-goal").textContent = game.rules.goal;
  drawGame();
  playing.showModal();
  document.getElementById("play-board").focus();
}

function act(name, ...values) {
  game[name](...values);
  drawGame();
}

playing.addEventListener("click", (event) => {
  const button = event.target.closest(".pad button");
  if (!button) return;
  if (button.dataset.do) act(button.dataset.do);
  else act("move", Number(button.dataset.move));
});
playing.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  event.stopPropagation();
  const what = { u: "undo", r: "restart" }[event.key];
  if (what) return act(what);
  if (!(event.key in KEYS)) return;
  event.preventDefault();
  act("move", KEYS[event.key]);
});

let touched;
const boardElement = document.getElementById("play-board");
boardElement.addEventListener("pointerdown", (event) => (touched = [event.clientX, event.clientY]));
boardElement.addEventListener("pointerup", (event) => {
  if (!touched) return;
  const [right, down] = [event.clientX - touched[0], event.clientY - touched[1]];
  touched = undefined;
  if (Math.max(Math.abs(right), Math.abs(down)) < 20) return;
  act("move", Math.abs(right) > Math.abs(down) ? (right > 0 ? 3 : 2) : down > 0 ? 1 : 0);
});

