// Which episode of a board is shown: that of an agent on a level, perhaps beside another agent's.

const FILTERS = [
  ["all", "All", () => true],
  ["solved", "Solved", (episode) => episode.success],
  ["failed", "Failed", (episode) => !episode.success && !episode.error],
  ["unread", "Out of format", (episode) => episode.is_unread],
  ["errors", "Provider errors", (episode) => Boolean(episode.error)],
];
const counts = (other) => other && !other.error;
const BESIDE = [
  ["gained", "Solved only here", (episode, other) => counts(other) && episode.success && !other.success],
  ["lost", "Failed only here", (episode, other) => counts(other) && !episode.error && !episode.success && other.success],
];

class BoardBrowsing extends Browsing {
  constructor(labels) {
    super(labels);
    this.label = 0;
    this.rival = "";
  }

  worlds() {
    return [...new Set(this.labels.map((each) => each.world))];
  }

  ofWorld(world = this.here().world) {
    return this.labels.filter((each) => each.world === world);
  }

  beside() {
    const { agent, world } = this.here();
    return this.labels.find((each) => each.world === world && each.agent === this.rival && each.agent !== agent);
  }

  accepting() {
    const all = this.beside() ? [...FILTERS, ...BESIDE] : FILTERS;
    return all.map(([name, , accepts]) => [name, accepts]);
  }

  // Those with hits, and what is chosen.
  filters() {
    const titles = new Map([...FILTERS, ...BESIDE]);
    const counted = this.accepting().map(([name]) => [name, titles.get(name), this.chosen({ filter: name }).length]);
    return counted.filter(([name, , number]) => number || ["all", "solved", "failed", this.filter].includes(name));
  }

  // The index of the label of an agent in a world; of another agent there where it has not played.
  labelOf(agent, world) {
    const exact = this.labels.findIndex((each) => each.agent === agent && each.world === world);
    return exact >= 0 ? exact : this.labels.findIndex((each) => each.world === world);
  }

  nextAgent() {
    const here = this.ofWorld();
    const next = here[(here.indexOf(this.here()) + 1) % here.length];
    this.change({ label: this.labels.indexOf(next) });
  }

  position() {
    const num = this.chosen().length;
    if (!num) return "No such episode";
    return (this.index < 0 ? "None" : "Level " + (this.index + 1)) + " of " + num;
  }

  toAddress() {
    const address = super.toAddress();
    return this.beside() && !this.missing ? address + "&" + new URLSearchParams({ beside: this.rival }) : address;
  }

  follow(address) {
    const place = new URLSearchParams(address.slice(1));
    if (place.has("label")) this.rival = place.get("beside") ?? "";
    return super.follow(address);
  }
}

