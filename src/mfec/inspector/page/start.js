// Opens the page with what is recorded in it, or with what its server answers.

let current = null;

async function open() {
  const recorded = find("#recorded");
  const source = recorded ? await Recording.open(recorded.textContent) : new Server();
  if (recorded) recorded.remove();
  current = new Inspector(source, await source.json("/api/run"));
  await current.start();
}

const opened = open();
opened.catch((error) => {
  say(find("#waiting"), error.message);
  if (!(error instanceof Refusal)) console.error(error);
});
window.inspector = {
  ready: opened.then(() => true, () => false),
  shown: () => current?.step?.step ?? null,
};
