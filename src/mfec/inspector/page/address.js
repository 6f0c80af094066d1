// What the address asks for: #game=0&step=17&memory=2:48213, all of it or parts.
function readPlace() {
  const words = new URLSearchParams(location.hash.slice(1));
  const whole = (text) => (/^\d{1,9}$/.test(text ?? "") ? Number(text) : null);
  const memory = /^(\d{1,4}):(\d{1,15})$/.exec(words.get("memory") ?? "");
  return {
    game: whole(words.get("game")),
    step: whole(words.get("step")),
    memory: memory && { action: Number(memory[1]), id: Number(memory[2]) },
  };
}
