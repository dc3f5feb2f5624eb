"use strict";
(() => {
  const panes = [...document.querySelectorAll(".text")];
  // What can be pointed at: lines, or the pieces of those that have any.
  const isItem = (one) => !one.querySelector(".m");
  const itemOf = (target) => {
    const one = target.closest(".m, .l");
    return one && isItem(one) ? one : null;
  };
  const lines = panes.map((pane) => [...pane.querySelectorAll(".l, .m")].filter(isItem));
  const every = lines.flat();
  const named = (line, what) => (line.dataset[what] || "").split(" ").filter(Boolean);
  const byOwn = new Map(), byInside = new Map();
  for (const line of every) {
    for (const name of named(line, "o")) (byOwn.get(name) || byOwn.set(name, []).get(name)).push(line);
    for (const name of named(line, "i")) (byInside.get(name) || byInside.set(name, []).get(name)).push(line);
  }
  const at = panes.map(() => -1);
  let marked = [], pinned = null;

  const show = (line) => {
    for (const one of marked) one.classList.remove("hit", "near");
    marked = [];
    if (!line) return;
    const hits = new Set(named(line, "o").flatMap((name) => byOwn.get(name) || []));
    const near = new Set([
      ...named(line, "o").flatMap((name) => byInside.get(name) || []),
      ...named(line, "i").flatMap((name) => byOwn.get(name) || []),
    ]);
    for (const one of near) if (!hits.has(one)) { one.classList.add("near"); marked.push(one); }
    for (const one of hits) { one.classList.add("hit"); marked.push(one); }
  };
  const reveal = (from) => {
    panes.forEach((pane, number) => {
      if (number === from) return;
      const own = lines[number];
      const first = own.find((one) => one.classList.contains("hit")) || own.find((one) => one.classList.contains("near"));
      if (first) pane.scrollTop = Math.max(0, first.offsetTop - pane.clientHeight / 3);
    });
  };
  const go = (number, to) => {
    const own = lines[number];
    const next = Math.min(Math.max(to, 0), own.length - 1);
    if (at[number] >= 0) {
      own[at[number]].classList.remove("here");
      own[at[number]].removeAttribute("aria-selected");
    }
    at[number] = next;
    own[next].classList.add("here");
    own[next].setAttribute("aria-selected", "true");
    panes[number].setAttribute("aria-activedescendant", own[next].id);
    own[next].scrollIntoView({ block: "nearest" });
    pinned = own[next];
    show(pinned);
    reveal(number);
  };
  const across = (number, step) => {
    const next = (number + step + panes.length) % panes.length;
    const own = lines[next];
    const hit = own.findIndex((one) => one.classList.contains("hit"));
    const near = own.findIndex((one) => one.classList.contains("near"));
    panes[next].focus();
    go(next, hit >= 0 ? hit : near >= 0 ? near : Math.max(at[next], 0));
  };
  panes.forEach((pane, number) => {
    const first = lines[number].find((one) => one.dataset.o);
    if (first) pane.scrollTop = Math.max(0, first.offsetTop - 40);
    pane.addEventListener("keydown", (event) => {
      const now = at[number], page = 20;
      const moves = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: lines[number].length - 1,
        PageDown: now + page, PageUp: now - page };
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.key in moves) go(number, moves[event.key]);
      else if (event.key === "ArrowRight") across(number, 1);
      else if (event.key === "ArrowLeft") across(number, -1);
      else if (event.key === "Escape") { pinned = null; show(null); }
      else return;
      event.preventDefault();
    });
    pane.addEventListener("focus", () => { if (at[number] < 0) go(number, 0); });
    pane.addEventListener("click", (event) => {
      const line = itemOf(event.target);
      if (line) go(number, lines[number].indexOf(line));
    });
    pane.addEventListener("mouseover", (event) => show(itemOf(event.target) || pinned));
    pane.addEventListener("mouseleave", () => show(pinned));
  });
})();
