// Reads /proc: which processes belong to an arm, and their CPU time and memory.
// An arm's processes are found by a marker in their environment, or by descent from one that has it,
// so that a daemon which detached itself is counted with its workers.

import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync, readlinkSync } from 'node:fs';

/** Name of the environment variable that marks every process of one arm. */
export const MARKER = 'FORKFUL_BENCH_ARM';

const TICKS_PER_SECOND = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }).trim());
const PAGE_BYTES = Number(execFileSync('getconf', ['PAGESIZE'], { encoding: 'utf8' }).trim());

/** @returns {string | null} the file's text, or null when the process is gone */
function readProc(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}

/**
 * One line of /proc/PID/stat.
 * @returns {null | {pid: number, ppid: number, comm: string, state: string, cpuSeconds: number, reapedSeconds: number, startTicks: number}}
 */
export function readStat(pid) {
  const text = readProc(`/proc/${pid}/stat`);
  if (text === null) return null;
  const close = text.lastIndexOf(')');
  const fields = text.slice(close + 2).split(' ');
  return {
    pid: Number(pid),
    ppid: Number(fields[1]),
    comm: text.slice(text.indexOf('(') + 1, close),
    state: fields[0],
    cpuSeconds: (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND,
    reapedSeconds: (Number(fields[13]) + Number(fields[14])) / TICKS_PER_SECOND,
    startTicks: Number(fields[19]),
  };
}

/** Every running (not zombie) process of this machine that can be read. */
export function allProcesses() {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(readStat)
    .filter((stat) => stat !== null && stat.state !== 'Z');
}

/** All processes that have one of these `NAME=value` marks in their environment, with all that descend from them, oldest first. */
export function membersOf(marks) {
  const processes = allProcesses();
  const members = new Set();
  for (const { pid } of processes) {
    const environ = readProc(`/proc/${pid}/environ`)?.split('\0');
    if (environ !== undefined && marks.some((mark) => environ.includes(mark))) members.add(pid);
  }
  for (let grown = true; grown; ) {
    grown = false;
    for (const { pid, ppid } of processes) {
      if (members.has(ppid) && !members.has(pid)) {
        members.add(pid);
        grown = true;
      }
    }
  }
  return processes.filter(({ pid }) => members.has(pid)).sort((a, b) => a.startTicks - b.startTicks || a.pid - b.pid);
}

/** Identifies a process by pid and start time, so that a reused pid is not mistaken for it. */
export function isSameProcess({ pid, startTicks }) {
  const now = readStat(pid);
  return now !== null && now.startTicks === startTicks && now.state !== 'Z';
}

/** CPU seconds (user and system) of every process of the arm, and of the children it has reaped. */
export function cpuSecondsOf(marks) {
  return membersOf(marks).reduce((sum, { cpuSeconds, reapedSeconds }) => sum + cpuSeconds + reapedSeconds, 0);
}

/** CPU seconds of one process from the scheduler's own nanosecond clock: for windows where a 10 ms tick is too coarse. */
export function cpuSecondsExact(pid) {
  let nanoseconds = 0;
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    const text = readProc(`/proc/${pid}/task/${task}/schedstat`);
    if (text !== null) nanoseconds += Number(text.split(' ')[0]);
  }
  return nanoseconds / 1e9;
}

/** Resident set of a process in bytes; `null` when it is gone. */
export function residentBytes(pid) {
  const text = readProc(`/proc/${pid}/statm`);
  return text === null ? null : Number(text.split(' ')[1]) * PAGE_BYTES;
}

/** Proportional set (shared pages divided by their sharers) in bytes; `null` when the kernel does not say. */
export function proportionalBytes(pid) {
  const match = /^Pss:\s+(\d+) kB/m.exec(readProc(`/proc/${pid}/smaps_rollup`) ?? '');
  return match === null ? null : Number(match[1]) * 1024;
}

/** Path of the program that a process runs, or an empty string. */
export function executableOf(pid) {
  try {
    return readlinkSync(`/proc/${pid}/exe`);
  } catch {
    return '';
  }
}

/** CPU seconds that the machine spent busy (user, nice, system) on all cores since boot, and that were stolen from it. */
export function machineCpuSeconds() {
  const fields = readFileSync('/proc/stat', 'utf8').split('\n', 1)[0].trim().split(/\s+/).slice(1).map(Number);
  return { busy: (fields[0] + fields[1] + fields[2]) / TICKS_PER_SECOND, stolen: (fields[7] ?? 0) / TICKS_PER_SECOND };
}

/** CPU seconds of this process and of the children that it has reaped: the harness and its load generators. */
export function ownCpuSeconds() {
  const stat = readStat(process.pid);
  return stat.cpuSeconds + stat.reapedSeconds;
}
