// Where answers come from: the server that sent the page, or the recording inside an exported one.

const LOST = "The server does not answer any more. What was loaded can still be looked at.";
const GIVE_UP = 300; // milliseconds that an old question may keep a new one waiting
const MISSING = "This is not in this file.";

// An answer that says no, in a sentence for the reader.
class Refusal extends Error {}

function isLate(error) {
  return error.name === "AbortError";
}

class Server {
  recorded = false;
  reached = () => {}; // called whenever it answers

  async json(path, options) {
    const answer = await this.#ask(path, options);
    return this.#read(answer.json());
  }

  async bytes(path, options) {
    const answer = await this.#ask(path, options);
    return new Uint8Array(await this.#read(answer.arrayBuffer()));
  }

  async #ask(path, options) {
    const answer = await this.#read(fetch(path, options));
    this.reached();
    if (answer.ok) return answer;
    let said;
    try {
      said = (await answer.json()).error;
    } catch {
      said = null;
    }
    throw new Refusal(typeof said === "string" ? said : `The server answers ${answer.status} to ${path}.`);
  }

  async #read(promise) {
    try {
      return await promise;
    } catch (error) {
      throw isLate(error) ? error : new Refusal(LOST);
    }
  }
}

class Recording {
  recorded = true;

  constructor(answers) {
    this.answers = answers;
  }

  static async open(base64) {
    return new Recording(JSON.parse(new TextDecoder().decode(await inflate(fromBase64(base64)))));
  }

  has(path) {
    return Object.hasOwn(this.answers, path);
  }

  async json(path) {
    if (!this.has(path)) throw new Refusal(MISSING);
    return path.includes("/steps/") ? this.#withMemories(this.answers[path]) : this.answers[path];
  }

  async bytes(path) {
    return fromBase64(await this.json(path));
  }

  // A step names its memories by number, each with its distance, and its weight where the page shows that: the file has
  // every memory once.
  #withMemories(step) {
    const written = (near) => {
      if (!Array.isArray(near)) return near;
      const [memory, distance, weight] = near;
      return { ...this.answers.memories[memory], distance, weight };
    };
    const actions = step.actions.map((action) => ({ ...action, neighbours: action.neighbours.map(written) }));
    return { ...step, actions };
  }
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

async function inflate(bytes) {
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(plain).arrayBuffer());
}

// A map that forgets what was used least recently once it holds more than its limit.
class Bounded {
  #held = new Map();
  #size = 0;

  constructor(limit, measure = () => 1) {
    this.limit = limit;
    this.measure = measure;
  }

  get(key) {
    const value = this.#held.get(key);
    if (value === undefined) return undefined;
    this.#held.delete(key);
    this.#held.set(key, value);
    return value;
  }

  set(key, value) {
    if (this.#held.has(key)) this.#size -= this.measure(this.#held.get(key));
    this.#held.delete(key);
    this.#held.set(key, value);
    this.#size += this.measure(value);
    for (const [oldest, held] of this.#held) {
      if (this.#size <= this.limit || oldest === key) break;
      this.#held.delete(oldest);
      this.#size -= this.measure(held);
    }
  }
}

// A scrub asks for many things of which only the newest is wanted. Two are on their way at a time, the newest waits, and
// those between are never asked for; the oldest is given up where it keeps the newest waiting.
class Newest {
  #going = new Set();
  #waiting = null;

  // What ask(signal) gives; null where it was overtaken by a newer one.
  async run(ask) {
    if (this.#waiting) this.#waiting.turn(false);
    this.#waiting = null;
    if (this.#going.size >= 2 && !(await this.#queue())) return null;
    const own = { controller: new AbortController(), since: performance.now() };
    this.#going.add(own);
    try {
      return await ask(own.controller.signal);
    } catch (error) {
      if (isLate(error)) return null;
      throw error;
    } finally {
      this.#going.delete(own);
      const next = this.#waiting;
      this.#waiting = null;
      if (next) next.turn(true);
    }
  }

  #queue() {
    return new Promise((turn) => {
      const own = { turn };
      const [oldest] = this.#going;
      this.#waiting = own;
      setTimeout(
        () => {
          if (this.#waiting === own) oldest.controller.abort();
        },
        Math.max(0, oldest.since + GIVE_UP - performance.now()),
      );
    });
  }
}

// JSON answers, each asked for once and kept up to a bound.
class Answers {
  #kept;
  #coming = new Map();
  #newest = new Newest();

  constructor(source, limit) {
    this.source = source;
    this.#kept = new Bounded(limit);
  }

  peek(path) {
    return this.#kept.get(path);
  }

  async get(path, signal) {
    const kept = this.peek(path);
    if (kept !== undefined) return kept;
    if (!this.#coming.has(path)) {
      const coming = this.source.json(path, { signal });
      this.#coming.set(path, coming);
      const over = () => this.#coming.delete(path);
      coming.then((answer) => this.#kept.set(path, answer)).then(over, over);
    }
    return this.#coming.get(path);
  }

  latest(path) {
    return this.#newest.run((signal) => this.get(path, signal));
  }
}
