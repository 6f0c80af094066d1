// Keys, for the whole page. Where an element has a use of its own for a key, it keeps it.

const MOVES = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };

function listenToKeys({ player, decision, leave, isComparing, ends }) {
  const dialog = find("#keys");
  find("#help").addEventListener("click", () => dialog.showModal());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    const target = event.target;
    if (event.key === "Escape" && isComparing()) leave();
    else if (event.key === "?") dialog.showModal();
    else if (target.closest("select, input, textarea")) return;
    else if (event.key in MOVES) player.move(MOVES[event.key] * (event.shiftKey && Math.abs(MOVES[event.key]) === 1 ? 10 : 1));
    else if (event.key === "Home" || event.key === "End") player.moveTo(ends()[event.key === "Home" ? 0 : 1]);
    else if (event.key === "[" || event.key === "]") player.reward(event.key === "[" ? -1 : 1);
    else if (event.key === " " && !target.closest("button, a, summary")) player.toggle();
    else if (event.key.toLowerCase() === "m" && !isComparing()) decision.focusFirst();
    else if ((event.key === "ArrowUp" || event.key === "ArrowDown") && target.closest(".card")) {
      decision.stepCard(target.closest(".card"), event.key === "ArrowUp" ? -1 : 1);
    } else return;
    event.preventDefault();
  });
}
