// The turns of a board's episodes, in files that are loaded when an episode is opened or searched.

const TURN = { text: "", images: [], sections: {}, claims: {}, actions: [], parse_error: null, terminated: false, truncated: false, response: "" };

class EpisodeFiles {
  constructor(labels) {
    this.perFile = payload.episodes_per_file ?? 64;
    this.byPlace = new Map(labels.flatMap((label) => label.episodes.map((episode) => [episode.place, episode])));
    this.loading = new Map();
    this.loaded = new Set();
    this.missing = new Set();
    (payload.files ?? []).forEach((content, number) => this.take(number, content));
  }

  numberOf(episode) {
    return Math.floor(episode.place / this.perFile);
  }

  has(episode) {
    return this.loaded.has(this.numberOf(episode));
  }

  pathOf(number) {
    return payload.episode_folder + "/" + String(number).padStart(4, "0") + ".js";
  }

  numbers(episodes) {
    return [...new Set(episodes.map((episode) => this.numberOf(episode)))];
  }

  // Resolves once the turns are there, or their file has turned out to be missing.
  load(episode) {
    return this.loadFile(this.numberOf(episode));
  }

  loadFile(number) {
    if (this.loaded.has(number)) return Promise.resolve();
    if (!this.loading.has(number)) {
      this.loading.set(number, new Promise((resolve) => {
        const script = make("script");
        script.src = this.pathOf(number);
        script.addEventListener("load", resolve);
        script.addEventListener("error", () => {
          this.missing.add(number);
          for (let index = 0; index < this.perFile; index++) this.markLoaded(number * this.perFile + index);
          resolve();
        });
        document.head.append(script);
      }));
    }
    return this.loading.get(number);
  }

  // As far as it can be: there is nothing to wait for any more.
  markLoaded(place) {
    const episode = this.byPlace.get(place);
    if (episode) episode.isLoaded = true;
    return episode;
  }

  take(number, { episodes, texts }) {
    const named = (moment) => ({ ...moment, ...Object.fromEntries(["text", "system"].filter((name) => typeof moment[name] === "number").map((name) => [name, texts[moment[name]]])) });
    episodes.forEach((course, index) => {
      const episode = this.markLoaded(number * this.perFile + index);
      if (!course || !episode) return;
      Object.assign(episode, course, { turns: course.turns.map((turn) => ({ ...TURN, ...named(turn) })), final: named(course.final) });
    });
    this.loaded.add(number);
  }
}

