// The page: which game and which step are shown, how they come, and how the address tells of them.

const ASK_AGAIN = 500; // milliseconds, while a game is still played
const STEPS_KEPT = 600;
const AHEAD = [1, -1, 2, 3];

class Inspector {
  settled = true;
  at = 0;
  first = 0;
  #round = 0; // of the step asked for last
  #seen = "picture";
  #game = null;

  constructor(source, run) {
    Object.assign(this, { source, run });
    this.frames = new Frames(source);
    this.answers = new Answers(source, STEPS_KEPT);
    this.thumbnails = new Thumbnails(source, this.frames, run);
    const failed = (error) => this.#failed(error);
    this.player = new Player(run.fps, { view: () => this.view, changed: () => this.#playerChanged() });
    this.picture = new Picture(find("#stage"));
    this.transport = new Transport(find("#transport"), this.player);
    const matches = run.exact_matches;
    const seek = (step) => this.player.moveTo(step);
    this.timeline = new Timeline(find("#timeline"), { name: "Step of this game", matches, seek });
    this.map = new MemoryMap(run);
    this.decision = new Decision(run, this.thumbnails, {
      open: (action, neighbour) => this.#open(action, neighbour),
      pointed: (action, neighbour) => this.#point(action, neighbour),
      isPlaying: () => this.player.playing,
      failed,
    });
    const moved = () => this.#speak();
    this.comparison = new Comparison(run, source, this.frames, this.answers, this.player, { moved, failed });
    this.numbers = new Numbers(find("#numbers"), run);
    for (const key of document.querySelectorAll("[data-of-matches]")) key.hidden = !matches;
    this.figures = new Figures(find("#figures"), [
      "Frame",
      ...(matches ? ["Exact so far, of actions taken"] : []),
      "Score so far",
      ...(matches ? ["Exact so far, of all look-ups"] : []),
      "Reward that followed",
      "Median age, in frames",
      "Memories used",
      "Youngest and oldest",
    ]);
    this.#head();
    this.#listen();
  }

  // What the transport moves: this game, or this game beside a memory.
  get view() {
    return this.comparison.open ? this.comparison : this;
  }

  get last() {
    return this.#game ? this.#game.steps - 1 : 0;
  }

  async start() {
    const place = readPlace();
    const games = Math.max(1, this.run.recorded_games);
    this.#listGames(games);
    await this.#choose(place.game !== null && place.game < games ? place.game : 0);
    this.#askOutcomes(games).catch(() => {}); // where the server does not answer, whoever needs it says so
    await this.#route();
  }

  waits() {
    return !this.#game.done && !this.#game.error;
  }

  nextReward(direction) {
    return rewardFrom(this.#game.rewards, this.at, direction);
  }

  // Shows a step. The frame and the place on the timeline follow at once; what was decided follows as soon as it is
  // here, unless another step was asked for by then.
  async moveTo(step) {
    const game = this.#game;
    if (game.steps === 0) return;
    this.at = Math.max(0, Math.min(this.last, step));
    const own = { round: ++this.#round, step: this.at };
    const path = `/api/games/${game.game}/steps/${own.step}`;
    this.settled = false;
    this.#tellPlace();
    const known = this.answers.peek(path);
    if (!known) this.decision.stale();
    const drawn = this.#drawFrame(own);
    try {
      let answer = known ?? null;
      while (answer === null && own.round === this.#round) answer = await this.answers.latest(path);
      if (own.round !== this.#round) return;
      this.settled = true;
      this.#show(answer);
      const complete = await this.decision.show(answer);
      await drawn;
      if (complete && own.round === this.#round) this.#shown(own.step);
      if (own.round === this.#round) await this.#ahead(own);
    } catch (error) {
      if (own.round === this.#round) this.settled = true;
      this.#failed(error);
    }
  }

  #show(answer) {
    this.step = answer;
    const { figures } = answer;
    const share = (exact) => (this.run.exact_matches ? [percent(exact)] : []);
    this.map.show(answer);
    this.figures.show(
      number(answer.frame),
      ...share(figures.exact_chosen_share),
      number(answer.score),
      ...share(figures.exact_share),
      number(answer.reward),
      figures.age_median === null ? "not recorded" : number(Math.round(figures.age_median)),
      number(figures.used),
      figures.age_youngest === null ? "–" : `${number(figures.age_youngest)} to ${number(figures.age_oldest)}`,
    );
    if (!this.#spec()) this.picture.tell("No picture");
    find("#stage").hidden = !this.#spec() && answer.numbers !== null;
    this.numbers.show(answer.numbers);
    this.numbers.beside(null);
    this.#speak();
    this.#rememberPlace();
  }

  // Marks a memory where there is more of it than on its card.
  #point(action, neighbour) {
    this.map.point(action, neighbour);
    this.numbers.beside(neighbour ? neighbour.numbers : null);
  }

  #shown(step) {
    document.dispatchEvent(new CustomEvent("inspector:shown", { detail: { step } }));
  }

  #spec() {
    return this.#game[this.#seen] ?? this.#game.picture ?? this.#game.observation;
  }

  #framesPath() {
    const seen = this.#game[this.#seen] ? this.#seen : this.#game.picture ? "picture" : "observation";
    return `/api/games/${this.#game.game}/${seen}s`;
  }

  async #drawFrame(own) {
    const spec = this.#spec();
    if (!spec) return;
    const path = this.#framesPath();
    const label = `Frame ${own.step * this.run.frame_skip} of this game`;
    try {
      let frame = this.frames.peek(path, spec, own.step);
      while (frame === null && own.round === this.#round) frame = await this.frames.latest(path, spec, own.step);
      if (own.round === this.#round) this.picture.show(frame, spec.shape, label);
    } catch (error) {
      if (own.round === this.#round) this.picture.tell(error.message);
      this.#failed(error);
    }
  }

  // What a next step would need, one thing after the other, until the reader moves on.
  async #ahead(own) {
    const { game, steps } = this.#game;
    const spec = this.#spec();
    const places = AHEAD.map((by) => own.step + by).filter((step) => step >= 0 && step < steps);
    try {
      for (const step of places) {
        if (own.round !== this.#round) return;
        const answer = await this.answers.get(`/api/games/${game}/steps/${step}`);
        if (Math.abs(step - own.step) === 1) await this.thumbnails.load(this.decision.ahead(answer));
      }
      for (const step of spec ? [...places, own.step + spec.per_chunk, own.step - spec.per_chunk] : []) {
        if (own.round !== this.#round) return;
        if (step >= 0 && step < steps) await this.frames.get(this.#framesPath(), spec, step);
      }
    } catch {
      // It was not asked for yet: where it is, it will be said.
    }
  }

  // -- The game ------------------------------------------------------------------------------------------------------

  async #choose(which) {
    this.#game = await this.source.json(`/api/games/${which}`);
    find("#game").value = String(which);
    this.#gameChanged();
    if (!this.#game.done) this.#watch(which);
    while (this.#game.steps === 0 && this.waits()) await sleep(50);
  }

  // To the first step of another game; a memory beside this one is left.
  async #begin(which) {
    this.player.stop();
    this.comparison.close();
    await this.#choose(which);
    await this.moveTo(0);
  }

  // Asks for a game again and again until it is over.
  async #watch(which) {
    while (this.#game.game === which && this.waits()) {
      await sleep(this.#game.steps === 0 ? 100 : ASK_AGAIN);
      if (this.#game.game !== which) return;
      try {
        this.#game = await this.source.json(`/api/games/${which}`);
      } catch (error) {
        this.#failed(error);
        if (error.message !== LOST) return;
        continue;
      }
      this.#gameChanged();
    }
  }

  #gameChanged() {
    const game = this.#game;
    this.run.cards = game.cards;
    this.timeline.show(game);
    if (this.comparison.open) this.comparison.game = game;
    if (game.error) this.#tell(game.error);
    const playing = this.waits();
    const alone = find("#games").hidden ? `score ${number(game.score)}` : "";
    say(find("#progress"), playing ? `playing: ${count(game.steps, "step")}, score ${number(game.score)}` : alone);
    this.#tellOutcome(game);
    find("#another").disabled = playing;
    const begun = game.steps > 0;
    find("#inspecting").hidden = !begun || this.comparison.open;
    find("#waiting").hidden = begun;
    if (!begun) say(find("#waiting"), playing ? "This game has not begun yet." : "Nothing was played.");
    if (begun) this.#tellPlace();
    find("#seen").hidden = !(game.picture && game.observation);
  }

  #listGames(games) {
    const select = find("#game");
    for (let game = select.length; game < games; game++) {
      select.append(make("option", { value: game, text: `Game ${game + 1}` }));
    }
    find("#games").hidden = games < 2 && !this.run.live;
  }

  #tellOutcome(game) {
    const option = find(`#game option[value="${game.game}"]`);
    const outcome = game.done || game.error ? `score ${number(game.score)}` : "being played";
    if (option) say(option, `Game ${game.game + 1}: ${outcome}`);
  }

  // The outcomes of the games that are not shown. They are played one after the other: where one is not over, those
  // after it have not begun.
  async #askOutcomes(games) {
    for (let which = 0; which < games; which++) {
      for (;;) {
        const game = which === this.#game.game ? this.#game : await this.source.json(`/api/games/${which}`);
        if (game.steps > 0) this.#tellOutcome(game);
        if (game.done || game.error) break;
        await sleep(4 * ASK_AGAIN);
      }
    }
  }

  async #playAnother() {
    const button = find("#another");
    button.disabled = true;
    try {
      const { game } = await this.source.json("/api/games", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: "{}",
      });
      this.#listGames(game + 1);
      await this.#begin(game);
    } catch (error) {
      this.#failed(error);
      button.disabled = false;
    }
  }

  // -- A memory ------------------------------------------------------------------------------------------------------

  #open(action, neighbour) {
    if (!this.settled || this.step.step !== this.at) return; // the card is of another step than the frame
    if (neighbour.episode === null || neighbour.frame === null) {
      this.#tell("When this memory was made was not recorded: there is no episode to show.");
      return;
    }
    this.#rememberPlace(true);
    history.pushState({ opened: true }, "", `${this.#address()}&memory=${action}:${neighbour.id}`);
    this.#compare(action, neighbour);
  }

  #compare(action, neighbour) {
    this.player.stop();
    this.opened = { action, id: neighbour.id, scroll: window.scrollY };
    find("#inspecting").hidden = true;
    this.comparison.show(this.#game, this.step, action, neighbour);
    window.scrollTo(0, 0);
    this.comparison.title.focus({ preventScroll: true });
    this.#speak();
  }

  #leave() {
    if (this.leaving || !this.comparison.open) return;
    this.player.stop();
    if (history.state && history.state.opened) {
      this.leaving = true;
      history.back();
    } else {
      history.replaceState(null, "", this.#address());
      this.#close();
    }
  }

  #close() {
    const { action, id, scroll } = this.opened;
    this.comparison.close();
    find("#inspecting").hidden = false;
    window.scrollTo(0, scroll);
    this.decision.focusCard(action, id);
    this.#tellPlace();
  }

  // -- The address ---------------------------------------------------------------------------------------------------

  #address() {
    return `#game=${this.#game.game}&step=${this.at}`;
  }

  // Browsers refuse an address that changes a hundred times in a while: it is written when the reader pauses.
  #rememberPlace(atOnce = false) {
    clearTimeout(this.remembering);
    const write = () => {
      if (!this.comparison.open && location.hash !== this.#address()) history.replaceState(null, "", this.#address());
    };
    if (atOnce) write();
    else this.remembering = setTimeout(write, 250);
  }

  async #route() {
    this.leaving = false;
    const place = readPlace();
    try {
      if (place.game !== null && place.game !== this.#game.game) await this.#choose(place.game);
      if (this.comparison.open && !place.memory) this.#close();
      if (!this.step || (place.step ?? this.at) !== this.at) await this.#arrive(place.step ?? this.at);
      if (!place.memory || this.comparison.open || !this.step || this.step.step !== this.at) return;
      const estimate = this.step.actions[place.memory.action];
      const neighbour = estimate && estimate.neighbours.find((each) => each.id === place.memory.id);
      if (!neighbour) this.#tell("The memory in this address is not behind this step.");
      else this.#compare(place.memory.action, neighbour);
    } catch (error) {
      this.#failed(error);
    }
  }

  // Waits for the step itself, not for its thumbnails.
  async #arrive(step) {
    clearTimeout(this.remembering);
    this.moveTo(step);
    const at = this.at;
    while (this.at === at && !this.settled) await sleep(5);
  }

  // -- Words ---------------------------------------------------------------------------------------------------------

  #head() {
    const { run } = this;
    say(find("#environment"), run.environment);
    const learned = `${count(run.frames, "frame")} learned in ${count(run.games, "game")}`;
    const kernel = run.kernel === "mean" ? "" : `, kernel ${run.kernel}`;
    const settings = `${count(run.k, "neighbour")}${kernel}, epsilon = ${run.epsilon}, ${run.embedding.replaceAll("_", " ")}`;
    const about = find("#about");
    about.append(make("code", { text: run.directory }), make("span", { text: learned }), make("span", { text: settings }));
    say(find("#frames-note"), run.frames_note);
    if (run.numbers !== null) this.#headNumbers();
    find("#another").hidden = !run.live;
  }

  #headNumbers() {
    const { numbers, shown_numbers: shown } = this.run;
    const said = numbers > shown ? `the first ${number(shown)} of ${count(numbers, "number")}` : count(numbers, "number");
    const hint = this.run.numbers_kept ? "; point at a memory to compare" : "";
    find("#numbers .note").append(said, make("span", { text: hint }));
  }

  #tellPlace() {
    const of = this.waits() ? `${number(this.last)} so far` : number(this.last);
    say(this.transport.place, `step ${number(this.at)} of ${of}`);
    this.timeline.place(this.at, `step ${this.at} of ${this.last}`);
  }

  // For ears, and only when nothing plays: the step and what was done in it.
  #speak() {
    clearTimeout(this.speaking);
    if (this.player.playing) return;
    this.speaking = setTimeout(() => {
      const words = this.comparison.open
        ? this.comparison.words
        : `Step ${this.at}. ${verdict(this.step, this.run)} ${this.step.reward ? `Reward ${number(this.step.reward)}.` : ""}`;
      say(find("#spoken"), words);
    }, 400);
  }

  #failed(error) {
    if (isLate(error)) return;
    if (!(error instanceof Refusal)) console.error(error);
    this.#tell(error.message);
  }

  #tell(sentence) {
    const notice = find("#notice");
    say(notice.firstElementChild, sentence);
    notice.hidden = false;
  }

  #playerChanged() {
    this.transport.changed();
    this.comparison.transport.changed();
    this.decision.playerChanged();
    this.#speak();
  }

  #listen() {
    this.source.reached = () => {
      if (find("#notice span").textContent === LOST) find("#notice").hidden = true;
    };
    listenToKeys({
      player: this.player,
      decision: this.decision,
      leave: () => this.#leave(),
      isComparing: () => this.comparison.open,
      ends: () => (this.comparison.open ? [0, this.comparison.last] : [0, this.last]),
    });
    find("#back").addEventListener("click", () => this.#leave());
    find("#another").addEventListener("click", () => this.#playAnother());
    find("#notice button").addEventListener("click", () => (find("#notice").hidden = true));
    find("#game").addEventListener("change", async (event) => {
      try {
        await this.#begin(Number(event.target.value));
      } catch (error) {
        this.#failed(error);
      }
    });
    const choice = find("#seen");
    choice.addEventListener("click", (event) => {
      if (!event.target.dataset.seen) return;
      this.#seen = event.target.dataset.seen;
      for (const button of choice.children) set(button, "aria-pressed", String(button.dataset.seen === this.#seen));
      this.#drawFrame({ round: this.#round, step: this.at });
    });
    window.addEventListener("popstate", () => this.#route());
  }
}
