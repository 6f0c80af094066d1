// Small pictures of remembered frames, many in one request. In an exported page they are cut out of the episodes in it.

const AT_MOST = 200; // places that one request may name

class Thumbnails {
  #kept = new Bounded(48 * MEGABYTE, (thumbnail) => 64 + (thumbnail.frame ? thumbnail.frame.length : 0));

  #coming = new Map();

  constructor(source, frames, run) {
    this.source = source;
    this.frames = frames;
    this.run = run;
  }

  // {frame, shape} or {note}, which says why there is none; undefined: not asked for yet.
  peek(place) {
    return this.#kept.get(place);
  }

  // Places are "episode:frame". Afterwards they can be peeked at, but for those that the server wants to be asked for
  // again: it plays an old episode once more for them.
  async load(places) {
    const missing = [...new Set(places)].filter((place) => this.peek(place) === undefined);
    if (this.source.recorded) {
      await Promise.all(missing.map((place) => this.#cut(place)));
      return;
    }
    const own = missing.filter((place) => !this.#coming.has(place));
    for (let from = 0; from < own.length; from += AT_MOST) {
      const some = own.slice(from, from + AT_MOST);
      const coming = this.#ask(some).finally(() => some.forEach((place) => this.#coming.delete(place)));
      some.forEach((place) => this.#coming.set(place, coming));
    }
    await Promise.all(missing.map((place) => this.#coming.get(place)));
  }

  async #ask(places) {
    const answer = await this.source.json(`/api/thumbnails?at=${places.join(",")}`);
    const pixels = answer.shape ? await inflate(fromBase64(answer.frames)) : null;
    const size = answer.shape ? area(answer.shape) : 0;
    let from = 0;
    places.forEach((place, index) => {
      if (!answer.found[index]) {
        if (!answer.later?.[index]) this.#kept.set(place, { note: answer.notes[index] });
        return;
      }
      this.#kept.set(place, { frame: pixels.slice(from, from + size), shape: answer.shape });
      from += size;
    });
  }

  async #cut(place) {
    const [episode, frame] = place.split(":").map(Number);
    try {
      const past = await this.source.json(`/api/past/${episode}`);
      if (!past.picture) throw new Refusal(past.note);
      const step = Math.floor(frame / this.run.frame_skip);
      const found = await this.frames.get(`/api/past/${episode}/frames`, past.picture, step);
      this.#kept.set(place, { frame: found.slice(), shape: past.picture.shape });
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.#kept.set(place, { note: error.message });
    }
  }
}
