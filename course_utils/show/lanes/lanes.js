// The page's side of lanes: Python draws what is in view, this moves the view.
const ZOOM = 0.5, STEP = 0.25, MIN_NS = 100;
const BUTTONS = [["+", "+", "zoom in"], ["−", "-", "zoom out"], ["◀", "ArrowLeft", "earlier"],
  ["▶", "ArrowRight", "later"], ["all", "0", "show all"]];

function render({ model, el }) {
  el.classList.add("trace-lanes");
  el.innerHTML = `<div class="tl-picture" tabindex="0"></div><p>${BUTTONS.map(([text, key, name]) =>
    `<button data-key="${key}" aria-label="${name}">${text}</button>`).join(" ")}
    <span class="tl-facts" role="status"></span></p>`;
  const [picture, facts] = [el.querySelector(".tl-picture"), el.querySelector(".tl-facts")];
  let grabbed = null;

  const draw = () => { picture.innerHTML = model.get("svg"); };
  const tell = () => { facts.textContent = model.get("facts"); };

  function look(start, end) {
    const [first, last] = model.get("whole");
    const width = Math.max(MIN_NS, Math.min(end - start, last - first));
    const from = Math.max(first, Math.min(start, last - width));
    model.set("view", [from, from + width]);
    model.save_changes();
  }

  function zoom(factor, share) {
    const [start, end] = model.get("view");
    const at = start + share * (end - start);
    look(at - factor * (at - start), at + factor * (end - at));
  }

  function point(row, share) {
    const [start, end] = model.get("view");
    model.set("pointed", [row, start + share * (end - start)]);
    model.save_changes();
  }

  // Row and share of the view's time at a place on the picture.
  function place(event) {
    const svg = picture.querySelector("svg"), box = svg.getBoundingClientRect();
    const { left, top, row } = model.get("sizes"), scale = svg.viewBox.baseVal.width / box.width;
    const x = scale * (event.clientX - box.left), y = scale * (event.clientY - box.top);
    return { row: Math.floor((y - top) / row), share: (x - left) / (svg.viewBox.baseVal.width - left) };
  }

  function move(by) {
    const [start, end] = model.get("view");
    look(start + by * (end - start), end + by * (end - start));
  }

  const row = () => model.get("pointed")[0] ?? -1;
  const KEYS = {
    "+": () => zoom(ZOOM, 0.5), "=": () => zoom(ZOOM, 0.5), "-": () => zoom(1 / ZOOM, 0.5),
    "ArrowLeft": () => move(-STEP), "ArrowRight": () => move(STEP), "0": () => look(...model.get("whole")),
    "ArrowUp": () => point(Math.max(0, row() - 1), 0.5), "ArrowDown": () => point(row() + 1, 0.5),
  };

  picture.addEventListener("keydown", (event) => {
    if (!(event.key in KEYS) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault(); // the page would scroll
    event.stopPropagation(); // or the notebook select another cell
    KEYS[event.key]();
  });
  picture.addEventListener("wheel", (event) => {
    if (document.activeElement !== picture) return; // the page scrolls until one clicks
    event.preventDefault();
    zoom(event.deltaY < 0 ? ZOOM : 1 / ZOOM, Math.max(0, place(event).share));
  }, { passive: false });
  picture.addEventListener("pointerdown", (event) => { grabbed = place(event); picture.setPointerCapture(event.pointerId); });
  picture.addEventListener("pointerup", (event) => {
    const from = grabbed, to = place(event);
    grabbed = null;
    if (from === null) return;
    if (Math.abs(to.share - from.share) < 0.005) point(from.row, from.share);
    else move(from.share - to.share);
  });
  el.querySelectorAll("button").forEach((button) => button.addEventListener("click", () => KEYS[button.dataset.key]()));

  model.on("change:svg", draw);
  model.on("change:facts", tell);
  draw();
  tell();
  return () => { model.off("change:svg", draw); model.off("change:facts", tell); };
}

export default { render };
