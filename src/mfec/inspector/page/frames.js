// Frames: chunks of them are decoded once and kept up to a bound; a picture is a canvas that shows one.

const MEGABYTE = 1 << 20;
const BY_ROW = 1; // the first byte of a chunk: how its frames were packed

class Frames {
  #chunks = new Bounded(96 * MEGABYTE, (chunk) => chunk.length);
  #coming = new Map();
  #newest = new Newest();

  constructor(source) {
    this.source = source;
  }

  // The frame of a step, if its chunk is there: path is that of the chunks, spec has their shape and length.
  peek(path, spec, step) {
    const chunk = this.#chunks.get(`${path}/${Math.floor(step / spec.per_chunk)}`);
    return chunk === undefined ? null : cut(chunk, spec, step);
  }

  async get(path, spec, step, signal) {
    const frame = this.peek(path, spec, step) ?? cut(await this.#load(path, spec, step, signal), spec, step);
    if (frame === null) throw new Refusal("This frame is not there yet.");
    return frame;
  }

  // Null where a newer one was asked for.
  latest(path, spec, step) {
    return this.#newest.run((signal) => this.get(path, spec, step, signal));
  }

  #load(path, spec, step, signal) {
    const name = `${path}/${Math.floor(step / spec.per_chunk)}`;
    if (!this.#coming.has(name)) {
      const coming = this.#decode(name, spec, signal);
      const over = () => this.#coming.delete(name);
      this.#coming.set(name, coming);
      coming.then(over, over);
    }
    return this.#coming.get(name);
  }

  async #decode(name, spec, signal) {
    const packed = await inflate(await this.source.bytes(name, { signal }));
    const chunk = packed.subarray(1);
    if (packed[0] === BY_ROW) addRows(chunk, spec.shape);
    else addFrames(chunk, spec.shape);
    this.#chunks.set(name, chunk);
    return chunk;
  }
}

// Every frame but the first is what differs from the one before it.
function addFrames(chunk, shape) {
  const size = area(shape);
  for (let place = size; place < chunk.length; place++) chunk[place] ^= chunk[place - size];
}

// Every row but the first of a frame is what differs from the row above it.
function addRows(chunk, shape) {
  const size = area(shape);
  const row = size / shape[0];
  for (let frame = 0; frame < chunk.length; frame += size) {
    for (let place = frame + row; place < frame + size; place++) chunk[place] += chunk[place - row];
  }
}

function area(shape) {
  return shape.reduce((product, side) => product * side, 1);
}

// A game that is still played has a last chunk that is not full: null says that it must be asked for again.
function cut(chunk, spec, step) {
  const size = area(spec.shape);
  const place = (step % spec.per_chunk) * size;
  return place + size <= chunk.length ? chunk.subarray(place, place + size) : null;
}

function draw(canvas, frame, shape) {
  const [height, width] = shape;
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const colours = shape.length === 3 ? shape[2] : 1;
  const pixels = new Uint32Array(image.data.buffer);
  for (let at = 0, from = 0; at < pixels.length; at++, from += colours) {
    const red = frame[from];
    const green = colours === 1 ? red : frame[from + 1];
    const blue = colours === 1 ? red : frame[from + 2];
    pixels[at] = red | (green << 8) | (blue << 16) | 0xff000000;
  }
  context.putImageData(image, 0, 0);
}

function blank(canvas) {
  canvas.getContext("2d").clearRect(0, 0, canvas.width, canvas.height);
}

// A frame, as large as its stage allows, or the words and numbers in its place.
class Picture {
  constructor(stage) {
    this.stage = stage;
    this.canvas = make("canvas", { role: "img", "aria-label": "No frame yet" });
    this.words = make("p", { class: "in-place" });
    this.canvas.hidden = this.words.hidden = true;
    stage.append(this.canvas, this.words);
    new ResizeObserver(() => this.#fit()).observe(stage);
  }

  show(frame, shape, label) {
    const other = !this.shape || this.shape[0] !== shape[0] || this.shape[1] !== shape[1];
    this.shape = shape;
    draw(this.canvas, frame, shape);
    set(this.canvas, "aria-label", label);
    if (other || this.canvas.hidden) {
      this.canvas.hidden = false;
      this.words.hidden = true;
      this.#fit();
    }
  }

  tell(text, { numbers = false } = {}) {
    this.canvas.hidden = true;
    this.words.hidden = false;
    this.words.classList.toggle("numbers", numbers);
    say(this.words, text);
  }

  // Whole multiples of a pixel where they lose little, so that pixels are squares of one size.
  #fit() {
    if (!this.shape || this.canvas.hidden) return;
    const [height, width] = this.shape;
    const ratio = window.devicePixelRatio || 1;
    const possible = Math.min(this.stage.clientWidth / width, this.stage.clientHeight / height) * ratio;
    const whole = Math.floor(possible + 0.01);
    const scale = (whole >= 0.8 * possible ? whole : possible) / ratio;
    this.canvas.style.width = `${width * scale}px`;
    this.canvas.style.height = `${height * scale}px`;
  }
}
