// Whether all requests of a storm are accounted for: each was executed once and answered, or a fault of the storm explains what became of it.

/** How long before a request was sent a process may have died that took it along: its sockets end a moment after it. */
const BEFORE_MS = 10_000;

/** A worker that is to leave closes a connection that was silent for so long: a client that stood still may send its next request meanwhile. */
const SILENT_MS = 1000;

/**
 * A fault of a storm, or something else that may cut connections.
 * @typedef {object} Fault
 * @property {string} name
 * @property {number} from in ms since 1970
 * @property {number} until
 * @property {number[]} [dead] the workers that it killed
 * @property {boolean} [drops] whether connections that the daemon has accepted and not yet handed over end with it
 * @property {boolean} [repeatsLines] whether lines of the log that are written meanwhile may be there twice
 * @property {boolean} [dropsLines] whether lines of the log that are written meanwhile may be missing
 * @property {boolean} [leaves] whether workers are told to leave, with which WebSockets end
 * @property {string} [refused] why an order came to nothing, or was cut off
 */

/** @typedef {import('./clients.mjs').Request} Request */

/**
 * @param {Request[]} requests
 * @param {Map<string, number[]>} executions the processes that have executed each id
 * @param {Fault[]} all
 * @returns {{ explained: Map<string, Request[]>, unaccounted: { request: Request, what: string, by: number[] }[] }}
 *   by the name of the fault; what is not explained, each with what is wrong and the processes that executed it
 */
export function judge(requests, executions, all) {
  const faults = all.map((fault) => ({ ...fault, until: endOf(fault, all) }));
  const explained = new Map();
  const unaccounted = [];
  for (const request of requests) {
    const by = executions.get(request.id) ?? [];
    const what = wrong(request, by);
    if (!what) continue;
    const fault = by.length <= 1 && cut(request) && causeOf(request, by[0], faults);
    if (!fault) unaccounted.push({ request, what, by });
    else explained.set(fault, [...explained.get(fault) ?? [], request]);
  }
  return { explained, unaccounted };
}

/**
 * The workers that were killed for lack of memory, from the daemon's log. The kernel may kill several workers of the app, not only the
 * worker that used up the memory; the daemon kills workers that hardly run any more.
 * @param {string[]} said lines of the daemon's log
 * @returns {Fault[]}
 */
export function killedForMemory(said) {
  return said.flatMap((line) => {
    const [, at, pid, how] = /^(\S+) forkful: \S+ worker \d+ \(process (\d+)\): (.*)/.exec(line) ?? [];
    if (!/^(the kernel killed it: |killed by Forkful: its event loop stood still .*`memory_max`)/.test(how)) return [];
    return [{ name: 'memory limit, another worker', from: Date.parse(at), until: Date.parse(at), dead: [Number(pid)] }];
  });
}

/** When a fault was over. An order that was cut off goes on with the next daemon, and is over when a later one is. */
function endOf(fault, all) {
  if (!fault.leaves || !fault.refused) return fault.until;
  const later = all.filter((other) => other.leaves && !other.refused && other.from >= fault.until);
  return Math.min(...later.map(({ until }) => until), Infinity);
}

const cut = ({ end }) => end === 'cut' || end === 'unanswered';

/** What is wrong with a request; undefined when it was executed once and answered. */
function wrong(request, by) {
  if (by.length > 1) return `executed ${by.length} times`;
  if (request.end === 'answered') return by.length === 1 ? undefined : 'answered, and not executed';
  return `${request.end} (${request.why}), ${by.length === 1 ? 'executed' : 'not executed'}`;
}

/** The name of the fault that explains why a request was cut. */
function causeOf(request, executedBy, faults) {
  const within = ({ from, until }) => from <= request.endedAt && until >= request.sentAt - BEFORE_MS;
  const process = executedBy ?? request.heldBy;
  // The process is known: it must have been killed. Otherwise one that was killed meanwhile may have had the connection.
  const death = faults.find((fault) => fault.dead?.length && (process === undefined ? within(fault) : fault.dead.includes(process)));
  if (death) return death.name;
  if (process === undefined) {
    const drop = faults.find((fault) => fault.drops && within(fault));
    if (drop) return drop.name;
  }
  const wasSilent = executedBy === undefined && request.sinceLastMs >= SILENT_MS;
  if (request.kind === 'websocket' || wasSilent) return faults.find((fault) => fault.leaves && within(fault))?.name;
  return undefined;
}

/**
 * The ends of the workers: each was told to stop, before anything else could end it, or was killed.
 * @param {Set<number>} untold the processes that handle their stop and were not told to
 * @param {Fault[]} faults
 * @param {string[]} said lines of the daemon's log
 * @returns {string[]} what is wrong, in words
 */
export function judgeEnds(untold, faults, said) {
  // A keeper that ends takes the workers along.
  if (faults.some(({ name }) => name === 'keeper killed')) return [];
  const killed = new Set(faults.flatMap(({ dead }) => dead ?? []));
  for (const line of said) {
    const [, pid] = /worker \d+ \(process (\d+)\): killed by Forkful/.exec(line) ?? [];
    if (pid) killed.add(Number(pid));
  }
  const rest = [...untold].filter((pid) => !killed.has(pid));
  // Of these the log does not say the process: one that did not run could not handle its stop.
  const late = said.filter((line) => line.includes('did not end in time and was killed')).length;
  return rest.length <= late ? [] : [`processes ${rest.join(', ')} were not told to stop, and ${late} were killed because they did not end in time`];
}

/**
 * The lines of the app's logs against what it has executed.
 * @param {string[]} texts of all its log files
 * @param {Map<string, number[]>} executions
 * @param {Set<string>} [unwritten] ids whose lines may be missing
 * @param {Set<string>} [repeated] ids whose lines may come again, because the daemon was killed while it wrote
 * @returns {string[]} what is wrong, in words
 */
export function judgeLogs(texts, executions, unwritten = new Set(), repeated = new Set()) {
  const faults = [];
  const logged = new Map();
  for (const line of texts.flatMap((text) => text.split('\n')).filter(Boolean)) {
    const id = /^executed (\S+) \.$/.exec(line)?.[1];
    if (id === undefined) faults.push(`torn line in the log: ${line.slice(0, 100)}`);
    else logged.set(id, (logged.get(id) ?? 0) + 1);
  }
  for (const [id, by] of executions) {
    const lines = logged.get(id) ?? 0;
    if (lines === by.length || lines < by.length && unwritten.has(id)) continue;
    if (lines > by.length && by.length > 0 && repeated.has(id)) continue;
    faults.push(`${id} was executed ${by.length} times, and the log has ${lines} lines of it`);
  }
  return faults;
}
