// Play, pause, step and speed, for whatever view is open. A view has: at, first, last, settled, place(), moveTo(step),
// nextReward(direction) and waits(), which says whether more steps are still to come.

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4];
const AT_ONCE = 4; // steps that may be skipped where the machine does not keep up

class Player {
  playing = false;
  speed = 1;

  constructor(fps, { view, changed }) {
    this.fps = fps;
    this.view = view;
    this.changed = changed;
  }

  toggle() {
    if (this.playing) {
      this.stop();
      return;
    }
    const view = this.view();
    if (view.at >= view.last && !view.waits()) view.moveTo(view.first);
    this.playing = true;
    this.owed = 0;
    this.before = performance.now();
    this.changed();
    requestAnimationFrame((now) => this.#tick(now));
  }

  stop() {
    if (!this.playing) return;
    this.playing = false;
    this.changed();
  }

  move(by) {
    this.stop();
    const view = this.view();
    view.moveTo(Math.max(view.first, Math.min(view.last, view.at + by)));
  }

  moveTo(step) {
    this.stop();
    this.view().moveTo(step);
  }

  reward(direction) {
    const step = this.view().nextReward(direction);
    if (step !== null) this.moveTo(step);
  }

  #tick(now) {
    if (!this.playing) return;
    const view = this.view();
    this.owed = Math.min(AT_ONCE, this.owed + ((now - this.before) / 1000) * this.fps * this.speed);
    this.before = now;
    const steps = Math.floor(this.owed);
    if (steps > 0 && view.settled) {
      this.owed -= steps;
      if (view.at < view.last) view.moveTo(Math.min(view.last, view.at + steps));
      else if (!view.waits()) this.stop();
    }
    requestAnimationFrame((later) => this.#tick(later));
  }
}

class Transport {
  constructor(element, player) {
    this.player = player;
    element.append(find("#transport-parts").content.cloneNode(true));
    this.play = find("[data-do=play]", element);
    this.place = find(".place", element);
    this.speed = find("select", element);
    for (const speed of SPEEDS) this.speed.append(make("option", { value: speed, text: `${speed}×` }));
    this.speed.addEventListener("change", () => {
      player.speed = Number(this.speed.value);
      player.changed();
    });
    const does = {
      earlier: () => player.reward(-1),
      back: () => player.move(-1),
      play: () => player.toggle(),
      on: () => player.move(1),
      later: () => player.reward(1),
    };
    for (const [name, action] of Object.entries(does)) {
      find(`[data-do=${name}]`, element).addEventListener("click", action);
    }
    this.changed();
  }

  changed() {
    set(this.play, "aria-label", this.player.playing ? "Pause" : "Play");
    this.play.classList.toggle("playing", this.player.playing);
    this.speed.value = String(this.player.speed);
  }
}

// The nearest step before or after one that has a reward, null where there is none.
function rewardFrom(rewards, step, direction) {
  for (let at = step + direction; at >= 0 && at < rewards.length; at += direction) if (rewards[at] !== 0) return at;
  return null;
}
