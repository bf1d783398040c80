// Reading by keys. One card is shown at a time; whatever changes a mark goes through `send`, which
// names the marks as they were seen, so that the server can refuse what somebody else has changed.
"use strict";

const $ = (id) => document.getElementById(id);
const most = Number(document.querySelector("main").dataset.points);
const answers = new Map(); // id of an answer: {version, mark, checked}, the last by the check
const cards = [...document.querySelectorAll("article")];
const items = [...document.querySelectorAll("#rubric button")];
const STACK = `undo ${location.pathname}`;
let shown = 0;
let asked = ""; // the mark that was asked about, until another card is shown
let jobs = Promise.resolve(); // keys that come while one is at work wait for it,
let round = 0; // and are forgotten if it fails
let opens = false; // a key is about to lead into a field, and what comes next is text

const sections = (card) => [...card.querySelectorAll("section")];
const ids = (card) => sections(card).map((section) => section.id);
const marks = (card) => ids(card).map((id) => answers.get(id).mark);
const waits = (card) => marks(card).some((mark) => mark.waits);
const stack = () => JSON.parse(sessionStorage.getItem(STACK) || "[]");
const keep = (entries) => sessionStorage.setItem(STACK, JSON.stringify(entries));
const rounded = (points) => Math.min(most, Math.round(points * 1e4) / 1e4);

// What the field of points says: a number with a comma or a point in it, else not a number.
function typed(text) {
  return /^(\d+[.,]?\d*|[.,]\d+)$/.test(text.trim()) ? Number(text.trim().replace(",", ".")) : NaN;
}

function say(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

function split(card) {
  const rest = sections(card).slice(1).map((section) => {
    const alone = card.cloneNode(false);
    alone.append(card.querySelector("h2").cloneNode(), section);
    return alone;
  });
  for (const each of [card, ...rest]) each.querySelectorAll(".same").forEach((same) => same.localName === "p" ? same.remove() : same.classList.remove("same"));
  card.after(...rest);
  cards.splice(cards.indexOf(card) + 1, 0, ...rest);
}

function show(index) {
  if (!cards.length) return;
  shown = Math.max(0, Math.min(cards.length - 1, index));
  asked = "";
  const card = cards[shown];
  if (new Set(marks(card).map((mark) => JSON.stringify(mark))).size > 1) split(card);
  cards.forEach((each) => { each.hidden = each !== card; });
  const size = sections(card).length;
  card.querySelector("h2").textContent = `Card ${shown + 1} of ${cards.length}` + (size > 1 ? `: ${size} like answers, marked together` : "");
  const { score, comment } = marks(card)[0];
  const shares = sharesOf(score ?? 0);
  items.forEach((item, n) => press(item, shares[n]));
  $("points").value = score ?? "";
  $("comment").value = comment;
  $("split").disabled = size === 1;
  document.activeElement.blur();
  window.scrollTo(0, 0);
  refresh();
}

function refresh() {
  const all = [...answers.values()];
  const read = all.filter(({ mark }) => !mark.waits).length;
  $("count").textContent = `${read} of ${all.length}`;
  [$("bar").value, $("bar").max] = [read, all.length || 1];
  for (const [id, { mark }] of answers) {
    const given = mark.score === null ? "" : `${mark.score} of ${most}`;
    const open = given ? "look again: points or text have changed since" : "to read";
    const said = [mark.waits ? open : "", given, mark.comment];
    $(id).querySelector(".mark").textContent = said.filter(Boolean).join(" · ");
  }
  $("undo").disabled = !stack().length;
  [...$("saved").children].forEach((button, n) => { button.querySelector("kbd").textContent = n < 9 ? `⇧${n + 1}` : ""; });
}

function press(item, share) {
  item.setAttribute("aria-pressed", ["false", "mixed", "true"][share * 2]);
  item.querySelector("b").textContent = rounded(item.dataset.points * (share || 1));
}

// How much of each item makes these points; nothing of any where more than one choice does.
function sharesOf(points) {
  let choices = [[]];
  for (const _ of items) choices = choices.flatMap((shares) => [0, 0.5, 1].map((share) => [...shares, share]));
  const sum = (shares) => shares.reduce((total, share, n) => total + share * items[n].dataset.points, 0);
  const found = choices.filter((shares) => Math.abs(sum(shares) - points) < 1e-3);
  return found.length === 1 ? found[0] : items.map(() => 0);
}

function turn(item) {
  press(item, { false: 1, true: 0.5, mixed: 0 }[item.getAttribute("aria-pressed")]);
  const shares = items.map((each) => each.dataset.points * { false: 0, mixed: 0.5, true: 1 }[each.getAttribute("aria-pressed")]);
  $("points").value = rounded(shares.reduce((sum, each) => sum + each, 0));
}

function toggle(saved) {
  const paragraphs = $("comment").value.split(/\n{2,}/).map((each) => each.trim()).filter(Boolean);
  const others = paragraphs.filter((each) => each !== saved);
  $("comment").value = (others.length < paragraphs.length ? others : [...paragraphs, saved]).join("\n\n");
}

function remember(comment) {
  const known = [...$("saved").children].map((button) => button.querySelector("span").textContent);
  for (const text of comment.split(/\n{2,}/).map((each) => each.trim())) {
    if (!text || known.includes(text)) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.append(document.createElement("kbd"), document.createElement("span"));
    button.lastChild.textContent = text;
    $("saved").append(button);
  }
}

// Ask for changes {id, seen, wanted}, all or none; whether they were made.
async function send(changes) {
  let reply;
  try {
    const response = await fetch(location.pathname, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-XSRFToken": document.documentElement.dataset.xsrf },
      body: JSON.stringify({ changes: changes.map((each) => ({ ...each, version: answers.get(each.id).version })) }),
    });
    reply = await response.json();
    if (!reply.answers) throw new Error(reply.message);
    if (!response.ok && !reply.said) reply.said = "The server refused it.";
  } catch (error) {
    say(`Not written: the server does not answer as it should (${error.message}). Load the page anew.`);
    return false;
  }
  for (const [id, now] of Object.entries(reply.answers)) {
    // Another version is another text than the one on this page: its mark must not be given here.
    if (answers.get(id)?.version === now.version) answers.set(id, now);
  }
  say(reply.said);
  return !reply.said;
}

// Whether a mark would take points of the check from several students, and nobody was asked yet.
function asks(card, points) {
  const lowered = ids(card).filter((id) => answers.get(id).checked > points);
  if (lowered.length < 2 || asked === `${points}`) return false;
  asked = `${points}`;
  say(`The check gave ${answers.get(lowered[0]).checked} of ${most} to each of these ${lowered.length} answers. Once more gives all of them ${points}; o shows them one by one.`);
  return true;
}

async function save(points, step) {
  const card = cards[shown];
  const comment = $("comment").value.trim();
  if (!(points >= 0 && points <= most)) {
    say(`Give points from 0 to ${most} first.`);
    return false;
  }
  if (asks(card, points)) return false;
  const wanted = { score: points, comment, waits: false };
  const changes = ids(card).map((id) => ({ id, seen: answers.get(id).mark, wanted }));
  if (!(await send(changes))) {
    show(cards.indexOf(card));
    [$("points").value, $("comment").value] = [points, comment]; // so that they are not lost
    return false;
  }
  keep([...stack(), changes.map(({ id, seen }) => ({ id, seen: wanted, wanted: seen }))]);
  remember(comment);
  const order = cards.map((_, n) => (shown + step * (n + 1) + cards.length * 2) % cards.length);
  const next = order.find((n) => waits(cards[n]));
  show(next ?? shown);
  if (next === undefined) say("All answers on this page are read. u takes the last mark back.");
  return true;
}

async function undo() {
  const entries = stack();
  const changes = entries.pop();
  if (!changes) return;
  const done = changes.every(({ id }) => answers.has(id)) && (await send(changes));
  keep(entries);
  show(cards.findIndex((card) => ids(card).includes(changes[0].id)));
  if (done) say("Taken back: points and comment are as they were.");
}

const keys = {
  Enter: (event) => save(typed($("points").value), event.shiftKey ? -1 : 1),
  f: () => save(most, 1),
  x: () => save(0, 1),
  u: undo,
  ArrowLeft: () => show(shown - 1),
  ArrowRight: () => show(shown + 1),
  Home: () => show(0),
  End: () => show(cards.length - 1),
  o: () => { split(cards[shown]); show(shown); },
  p: () => $("points").select(),
  c: () => $("comment").focus(),
  m: () => { const fold = document.querySelector("details"); fold.open = !fold.open; },
  "?": () => { const fold = document.querySelectorAll("details")[1]; fold.open = !fold.open; },
};

function run(job) {
  const mine = round;
  jobs = jobs.then(async () => {
    if (mine === round && (await job()) === false) round += 1;
    opens = false;
  }).catch((error) => say(`Load the page anew: ${error}`));
}

document.addEventListener("keydown", (event) => {
  const typing = ["INPUT", "TEXTAREA"].includes(event.target.tagName);
  const digit = /^(?:Digit|Numpad)([1-9])$/.exec(event.code)?.[1];
  if (event.key === "Escape") {
    event.target.blur();
    return;
  }
  const inPoints = event.target.id === "points";
  const saves = event.key === "Enter" && (event.ctrlKey || inPoints);
  const leaves = saves || (inPoints && /^[a-z?]$/i.test(event.key)); // no number has a letter
  if ((typing && !leaves) || event.altKey || event.metaKey || (event.ctrlKey && !saves)) return;
  if (!typing && event.key === "Enter" && event.target.closest("a, button, summary")) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const chosen = event.shiftKey ? $("saved") : $("rubric"); // looked up when earlier keys have done their work
  const job = digit ? () => chosen.querySelectorAll("button")[digit - 1]?.click() : Object.hasOwn(keys, key) && (() => keys[key](event));
  if (!job) return;
  event.preventDefault();
  if (opens || event.repeat) return; // a key that is held marks one card, not all
  if (leaves) event.target.blur(); // what comes next is no text
  opens = "pc".includes(key);
  run(job);
});

document.querySelector("aside").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (event.detail) button.blur(); // after a mouse, Enter saves
  const named = { save: "Enter", full: "f", none: "x", undo: "u", back: "ArrowLeft", on: "ArrowRight", split: "o" }[button.id];
  if (named) run(() => keys[named](event));
  else if (items.includes(button)) turn(button);
  else toggle(button.querySelector("span").textContent);
});

$("points").addEventListener("input", () => items.forEach((item) => press(item, 0)));
document.querySelectorAll("section").forEach((section) => answers.set(section.id, JSON.parse(section.dataset.answer)));
show(Math.max(0, cards.findIndex(waits)));
