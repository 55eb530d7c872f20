// The flame graph: buttons in rows, drawn anew when somebody looks into one of them. All texts of the profile are set as text.
const { frames: functions, nodes } = JSON.parse(document.getElementById('data').textContent);
const [graph, detail, search, found, reset, rows] = ['graph', 'detail', 'search', 'found', 'reset', 'rows'].map((id) => document.getElementById(id));
const ORIGINS = ['own', 'library', 'node', 'native', 'forkful'];
const ROW = 22;
/** Narrower ones are not drawn. */
const NARROW = 2;

// A node is [its caller's place, its frame, microseconds in all, in it alone], callers first.
const children = nodes.map(() => []);
nodes.forEach(([parent], at) => { if (parent >= 0) children[parent].push(at); });
const depths = [];
for (const [parent] of nodes) depths.push(parent < 0 ? 0 : depths[parent] + 1);
for (const list of children) list.sort((a, b) => nodes[b][2] - nodes[a][2]);

let root = 0;
let current = 0;
let wanted = '';
let drawn = new Map();

const whole = nodes.length > 0 ? nodes[0][2] : 0;
const percent = (us) => `${(whole > 0 ? 100 * us / whole : 0).toFixed(1)} %`;
const textOf = (at) => { const [name, place] = functions[nodes[at][1]]; return place ? `${name} (${place})` : name; };
const isWanted = (frame) => functions[frame].some((text) => typeof text === 'string' && text.toLowerCase().includes(wanted));

function describe(at) {
  detail.textContent = `${textOf(at)}: ${percent(nodes[at][2])} of the busy time, ${percent(nodes[at][3])} in it alone`;
}

function button(at, left, width, row) {
  const [, frame] = nodes[at];
  const one = document.createElement('button');
  one.type = 'button';
  one.className = ORIGINS[functions[frame][2]];
  if (wanted) one.classList.add(isWanted(frame) ? 'hit' : 'miss');
  one.style.left = `${left}px`;
  one.style.width = `${width}px`;
  one.style.top = `${row * ROW}px`;
  one.textContent = width > 24 ? functions[frame][0] : '';
  one.setAttribute('aria-label', `${textOf(at)}, ${percent(nodes[at][2])}`);
  one.title = textOf(at);
  one.tabIndex = at === current ? 0 : -1;
  one.addEventListener('click', () => look(at));
  one.addEventListener('focus', () => { focusOn(at); describe(at); });
  one.addEventListener('mouseenter', () => describe(at));
  drawn.set(at, one);
  return one;
}

/** Which button Tab comes to. */
function focusOn(at) {
  const before = drawn.get(current);
  if (before) before.tabIndex = -1;
  current = at;
  const now = drawn.get(at);
  if (now) now.tabIndex = 0;
}

function draw() {
  drawn = new Map();
  const all = document.createDocumentFragment();
  const width = graph.clientWidth;
  for (let at = root; at >= 0; at = nodes[at][0]) all.append(button(at, 0, width, depths[at]));
  let last = depths[root];
  const open = [[root, 0, width]];
  while (open.length > 0) {
    const [at, left, room] = open.pop();
    let from = left;
    for (const child of children[at]) {
      const share = nodes[at][2] > 0 ? room * nodes[child][2] / nodes[at][2] : 0;
      if (share < NARROW) break;
      all.append(button(child, from, share, depths[child]));
      last = Math.max(last, depths[child]);
      open.push([child, from, share]);
      from += share;
    }
  }
  graph.replaceChildren(all);
  graph.style.height = `${(last + 1) * ROW}px`;
  if (!drawn.has(current)) focusOn(root);
  reset.disabled = root === 0;
}

function look(at) {
  root = at;
  current = at;
  draw();
  drawn.get(at).focus();
}

/** The neighbour in a direction that is drawn. */
function neighbour(key) {
  const parent = nodes[current][0];
  if (key === 'ArrowUp') return parent;
  if (key === 'ArrowDown') return children[current].find((child) => drawn.has(child)) ?? -1;
  const beside = parent < 0 ? [] : children[parent].filter((child) => drawn.has(child));
  return beside[beside.indexOf(current) + (key === 'ArrowRight' ? 1 : -1)] ?? -1;
}

graph.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') look(0);
  else if (event.key.startsWith('Arrow')) {
    const next = neighbour(event.key);
    if (next >= 0) drawn.get(next)?.focus();
  } else return;
  event.preventDefault();
});

reset.addEventListener('click', () => look(0));

search.addEventListener('input', () => {
  wanted = search.value.trim().toLowerCase();
  draw();
  for (const row of rows.rows) row.hidden = wanted !== '' && !row.textContent.toLowerCase().includes(wanted);
  const hits = functions.map((_, frame) => isWanted(frame));
  // Time below a match counts once.
  const inside = [];
  let us = 0;
  nodes.forEach(([parent, frame, total], at) => {
    const above = parent >= 0 && inside[parent];
    inside[at] = above || hits[frame];
    if (inside[at] && !above) us += total;
  });
  const many = hits.filter(Boolean).length;
  found.textContent = wanted === '' ? '' : `${many} ${many === 1 ? 'function' : 'functions'}, ${percent(us)} of the busy time`;
});

if (nodes.length > 0) {
  draw();
  addEventListener('resize', draw);
}
