// The page's side of a layer to click on. Python draws, counts and judges; this clicks and paints.
const SYMBOL = { right: "✓", missed: "!", extra: "✗" };

function render({ model, el }) {
  el.classList.add("layer-explorer");
  el.innerHTML = `${model.get("svg")}
    <p><button class="ld-ask">Ask the instrument</button> <button class="ld-clear">Clear</button>
    <span class="ld-message" role="status"></span></p><p class="ld-facts" role="status"></p>
    <ul class="ld-reasons"></ul>`;
  const [message, facts, reasons] = [".ld-message", ".ld-facts", ".ld-reasons"].map((name) => el.querySelector(name));
  const parts = [...el.querySelectorAll("[role=button]")];
  const tensors = parts.filter((part) => part.classList.contains("ld-tensor"));
  const text = new Map(parts.map((part) => [part, part.getAttribute("aria-label")]));

  function paint() {
    const [marked, verdicts] = [model.get("marked"), model.get("verdicts")];
    for (const tensor of tensors) {
      const verdict = verdicts[tensor.dataset.name] ?? "";
      tensor.setAttribute("aria-pressed", marked.includes(tensor.dataset.name));
      tensor.setAttribute("aria-label", verdict ? `${verdict}: ${text.get(tensor)}` : text.get(tensor));
      tensor.dataset.verdict = verdict;
      tensor.querySelector(".ld-mark").textContent = SYMBOL[verdict] ?? "";
    }
    message.textContent = model.get("message");
    reasons.replaceChildren(...model.get("reasons").map((text) => {
      const item = document.createElement("li");
      item.textContent = text;
      return item;
    }));
  }

  function mark(names) {
    model.set("marked", names);
    model.set("reasons", []);
    model.set("verdicts", {});
    model.save_changes();
    paint();
  }

  function press(part) {
    facts.textContent = text.get(part);
    parts.forEach((each) => each.classList.toggle("ld-pressed", each === part));
    if (!tensors.includes(part)) return;
    const [name, marked] = [part.dataset.name, model.get("marked")];
    mark(marked.includes(name) ? marked.filter((each) => each !== name) : [...marked, name]);
  }

  for (const part of parts) {
    part.addEventListener("click", () => press(part));
    part.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault(); // the page would scroll, or the notebook run the cell
      event.stopPropagation();
      press(part);
    });
  }
  el.querySelector(".ld-clear").addEventListener("click", () => mark([]));
  el.querySelector(".ld-ask").addEventListener("click", () => {
    model.set("message", "Measuring …");
    model.set("asked", model.get("asked") + 1);
    model.save_changes();
  });

  const events = ["change:marked", "change:verdicts", "change:message"];
  events.forEach((event) => model.on(event, paint));
  paint();
  return () => events.forEach((event) => model.off(event, paint));
}

export default { render };
