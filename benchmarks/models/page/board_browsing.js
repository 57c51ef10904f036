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

// Orders of levels as [name, title, value], highest first; those without a value last. Without a name: by seed.
const ORDERS = [
  ["", "level", () => 0],
  ["turns", "most turns", (episode) => episode.num_turns],
  ["cost", "highest cost", (episode) => episode.usd],
  ["tokens", "most tokens", (episode) => episode.tokens],
  ["reward", "highest reward", (episode) => episode.total_reward],
];

// What the page's outlines leave out.
const OUTLINE = { repeat: 0, success: false, error: "", is_unread: false, total_reward: 0, mistake: null, num_turns: 0, num_actions: 0, stops: [], usd: 0, tokens: 0, turns: [], final: null };

class BoardBrowsing extends Browsing {
  constructor(labels) {
    for (const label of labels) {
      label.episodes = label.episodes.map((outline) => {
        const episode = { ...OUTLINE, world: label.world, ...outline };
        return Object.assign(episode, { key: episode.seed + "/" + episode.repeat });
      });
    }
    super(labels);
    this.label = 0;
    this.rival = "";
    this.stop = "";
    this.order = "";
  }

  chosen({ stop = this.stop, ...narrowing } = {}) {
    const found = super.chosen(narrowing).filter((episode) => !stop || episode.stops.includes(stop));
    const [, , valueOf] = ORDERS.find(([name]) => name === this.order) ?? ORDERS[0];
    return this.order ? found.sort((one, other) => valueOf(other) - valueOf(one)) : found;
  }

  // Until its turns are loaded, an episode may match any search.
  matches(episode, words) {
    return !episode.isLoaded || super.matches(episode, words);
  }

  // Stays on a level when loaded turns change what a search finds.
  stayOn(key) {
    if (!this.missing) this.index = Math.max(0, this.chosen().findIndex((episode) => episode.key === key));
  }

  // Stop reasons as [reason, number of episodes], other than "stop".
  stops() {
    const reasons = [...new Set(this.here().episodes.flatMap((episode) => episode.stops))].sort();
    return reasons.map((reason) => [reason, this.chosen({ stop: reason }).length]);
  }

  // Orders by what is known of these episodes.
  orders() {
    const { episodes } = this.here();
    return ORDERS.filter(([name, , valueOf]) => !name || new Set(episodes.map(valueOf)).size > 1).map(([name, title]) => [name, title]);
  }

  isNarrowed() {
    return Boolean(this.query.trim() || this.mistake || this.stop || this.filter !== "all");
  }

  dropUnused() {
    super.dropUnused();
    if (this.stop && !this.here().episodes.some((episode) => episode.stops.includes(this.stop))) this.stop = "";
    if (!ORDERS.some(([name]) => name === this.order)) this.order = "";
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

  find(key) {
    if (this.byKey.get(this.here()).has(key) && this.stop && !this.chosen().some((episode) => episode.key === key)) this.stop = "";
    super.find(key);
  }

  toAddress() {
    const address = super.toAddress();
    if (this.missing) return address;
    const more = { beside: this.beside() ? this.rival : "", stop: this.stop, sort: this.order };
    return address + Object.entries(more).filter(([, value]) => value).map(([name, value]) => "&" + new URLSearchParams({ [name]: value })).join("");
  }

  follow(address) {
    const place = new URLSearchParams(address.slice(1));
    if (place.has("label")) Object.assign(this, { rival: place.get("beside") ?? "", stop: place.get("stop") ?? "", order: place.get("sort") ?? "" });
    return super.follow(address);
  }
}

