"use strict";
// Which episodes the page shows, and how it writes what it shows. No document in here: tests run this file under Node.

// ---- Numbers and words ---------------------------------------------------------------------------------

function short(value, scale) {
  if (value === null || value === undefined) return "–";
  let text;
  if (scale === "rate") text = (100 * value).toFixed(1).replace(/\.0$/, "") + "%";
  else if (value !== 0 && (Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3))
    text = value.toExponential(1).replace(".0e", "e").replace("e+", "e");
  else {
    const digits = value === 0 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
    text = value.toLocaleString("en-US", { maximumFractionDigits: digits });
  }
  return text.replaceAll("-", "−");
}

function signed(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const text = Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(2).replace(/0$/, "");
  return (value > 0 ? "+" : "") + text.replace("-", "−");
}

// The first mistake, as a sentence; an episode may fail without one.
function blame(mistake) {
  if (mistake.turn === null) return "Not solved; no single turn caused it.";
  return "First mistake: " + mistake.kind + " in turn " + (mistake.turn + 1) + ".";
}

// ---- Episodes ------------------------------------------------------------------------------------------

const ALWAYS = [
  ["all", () => true],
  ["solved", (episode) => episode.success],
  ["failed", (episode) => !episode.success],
];
const COMPARED = [
  ["gained", (episode, other) => other && episode.success && !other.success],
  ["lost", (episode, other) => other && !episode.success && other.success],
];
const TITLES = { all: "All", solved: "Solved", failed: "Failed", gained: "Newly solved", lost: "Newly failed" };
const TITLES_OF_RUNS = { ...TITLES, gained: "Solved only here", lost: "Failed only here" };

// As `vlm_envs.splits.level_name`.
function levelName(seed) {
  if (seed >= 1.5e9 && seed < 2e9) return "test level " + (seed - 1.5e9);
  if (seed >= 1e9 && seed < 1.5e9) return "validation level " + (seed - 1e9);
  return "level " + seed;
}

class Browsing {
  // Alone is an episode without the one it is compared with; a narrow screen starts so.
  constructor(labels, isAloneAtFirst = false) {
    this.labels = labels.filter((each) => each.episodes.length);
    this.byKey = new Map(this.labels.map((each) => [each, new Map(each.episodes.map((episode) => [episode.key, episode]))]));
    this.searched = new Map();
    // Evaluations come first in the list, episodes of training iterations after them.
    this.label = Math.max(0, this.labels.findLastIndex((each) => !each.is_training));
    this.filter = "all";
    this.mistake = "";
    this.query = "";
    this.isAlone = this.isAloneAtFirst = isAloneAtFirst;
    this.index = 0;
    // The address of an episode or a label that is not on this page: kept, and said, until something else is chosen.
    this.missing = "";
    this.address = "";
  }

  here() {
    return this.labels[this.label];
  }

  // What a label is compared with: an earlier evaluation of the same levels, or the other run's of the same name.
  beside() {
    return this.labels.find((each) => each.label === this.here().beside);
  }

  other(episode) {
    return this.beside() && this.byKey.get(this.beside()).get(episode.key);
  }

  // Everything a model wrote, and what names an episode.
  haystack(episode) {
    if (!this.searched.has(episode)) {
      const said = episode.turns.map((turn) => [turn.response, turn.parse_error, (turn.actions || []).join(", ")].join("\n"));
      const blamed = episode.mistake ? episode.mistake.kind + " " + episode.mistake.detail : "solved";
      const { question } = episode;
      const asked = question ? [question.text, question.answered, question.correct] : [];
      this.searched.set(episode, [episode.key, "seed " + episode.seed, levelName(episode.seed), blamed, ...asked, ...said].join("\n").toLowerCase());
    }
    return this.searched.get(episode);
  }

  matches(episode, words) {
    return this.haystack(episode).includes(words);
  }

  accepting() {
    return this.beside() ? [...ALWAYS, ...COMPARED] : ALWAYS;
  }

  chosen({ filter = this.filter, mistake = this.mistake, query = this.query, of = this.here() } = {}) {
    const [, accepts] = this.accepting().find(([name]) => name === filter);
    const words = query.trim().toLowerCase();
    return of.episodes.filter(
      (episode) =>
        accepts(episode, this.other(episode)) &&
        (!mistake || episode.mistake?.kind === mistake) &&
        (!words || this.matches(episode, words))
    );
  }

  episode() {
    return this.chosen()[this.index];
  }

  // Filters as [name, title, number of hits].
  filters() {
    const titles = this.beside()?.run === this.here().run ? TITLES : TITLES_OF_RUNS;
    return this.accepting().map(([name]) => [name, titles[name], this.chosen({ filter: name }).length]);
  }

  // Mistakes as [kind, number of hits], the most frequent first. A search changes the numbers only, never the buttons.
  mistakes() {
    const counts = new Map();
    const ofFilter = this.chosen({ mistake: "", query: "" });
    for (const { mistake } of ofFilter) if (mistake) counts.set(mistake.kind, (counts.get(mistake.kind) || 0) + 1);
    const kinds = [...counts].sort((one, other) => other[1] - one[1]).map(([kind]) => kind);
    return kinds.map((kind) => [kind, this.chosen({ mistake: kind }).length]);
  }

  change(changes) {
    const seen = this.episode();
    Object.assign(this, { missing: "" }, changes);
    this.dropUnused();
    if ("index" in changes) return;
    // Stay on the same level when the evaluation or the filter changes.
    this.index = Math.max(0, seen ? this.chosen().findIndex((episode) => episode.key === seen.key) : 0);
  }

  // A label that is compared with nothing has fewer filters, and those of solved episodes no mistakes.
  dropUnused() {
    if (!this.accepting().some(([name]) => name === this.filter)) this.filter = "all";
    if (this.mistake && !this.mistakes().some(([kind]) => kind === this.mistake)) this.mistake = "";
  }

  go(step) {
    const index = this.index + step;
    if (index >= 0 && index < this.chosen().length) this.change({ index });
  }

  position() {
    const { num_recorded, num_failed, episodes: shown } = this.here();
    const num = this.chosen().length;
    const where = num ? (this.index < 0 ? "None of " + num + " chosen" : "Episode " + (this.index + 1) + " of " + num) : "No such episode";
    if (num_recorded <= shown.length) return where;
    const numFailedShown = shown.filter((each) => !each.success).length;
    return (
      where + "; here are " + shown.length + " of " + num_recorded + " recorded, " + numFailedShown + " of " + num_failed + " failures among them"
    );
  }

  // ---- One episode has one address, which also survives the reloads of a live page -----------------------------

  toAddress() {
    if (this.missing) return this.address;
    const place = new URLSearchParams({ label: this.here().label });
    const episode = this.episode();
    if (episode) place.set("episode", episode.key);
    if (this.filter !== "all") place.set("filter", this.filter);
    if (this.mistake) place.set("mistake", this.mistake);
    if (this.query) place.set("search", this.query);
    if (this.isAlone !== this.isAloneAtFirst) place.set("alone", this.isAlone ? "yes" : "no");
    return "#" + place;
  }

  // Goes to where an address leads; returns whether it is one of this page's.
  follow(address) {
    const place = new URLSearchParams(address.slice(1));
    if (!place.has("label")) return false;
    const narrowing = { filter: place.get("filter") ?? "all", mistake: place.get("mistake") ?? "", query: place.get("search") ?? "" };
    const isAlone = place.has("alone") ? place.get("alone") === "yes" : this.isAloneAtFirst;
    Object.assign(this, narrowing, { missing: "", address, index: 0, isAlone });
    const label = this.labels.findIndex((each) => each.label === place.get("label"));
    if (label >= 0) this.label = label;
    this.dropUnused();
    if (label < 0) this.miss("Nothing called “" + place.get("label") + "” is on this page.");
    else if (place.has("episode")) this.find(place.get("episode"));
    return true;
  }

  find(key) {
    const indexIn = () => this.chosen().findIndex((episode) => episode.key === key);
    if (this.byKey.get(this.here()).has(key)) {
      if (indexIn() < 0) Object.assign(this, { filter: "all", mistake: "", query: "" });
      this.index = indexIn();
      return;
    }
    const { label, num_recorded, episodes } = this.here();
    const isCut = num_recorded > episodes.length;
    this.miss(
      "No episode “" + key + "” under “" + label + "” on this page" +
        (isCut ? ", which has only " + episodes.length + " of the " + num_recorded + " recorded." : ".")
    );
  }

  miss(sentence) {
    this.missing = sentence + " Choose another above.";
    this.index = -1;
  }
}
