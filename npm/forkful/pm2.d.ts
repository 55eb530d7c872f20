// Types of `forkful/pm2`: PM2's functions, implemented by Forkful. Without a callback each returns a promise.
/// <reference types="node" />
import type { App, Pm2Env, Process, Status } from './index.js';

declare namespace pm2 {
  type Target = string | number;
  type Callback<T = unknown> = (error: Error | null, result: T) => void;
  type ProcessDescription = Process;

  /** The options of an app and of its start. */
  type StartOptions = Partial<App> & { force?: boolean; updateEnv?: boolean; only?: string };
  type Startable = string | StartOptions | StartOptions[] | { apps: StartOptions[] };

  /** The result of `start` for each worker. */
  interface Proc {
    pid: number;
    name: string;
    pm_id: number;
    process: { pid: number };
    pm2_env: Pm2Env;
    monit: { memory: number; cpu: number };
  }

  interface Head {
    name: string;
    namespace: string;
    pm_id: number;
    status: Status;
    restart_time: number;
  }

  /** The result of `stop`, `restart`, `reload` and `delete` for each worker. */
  interface ActedOn extends Head {
    pm2_env: Head & { env: Record<string, string> };
  }

  /** PM2's bus; `*` in a name matches any text, which listeners get before the data. */
  interface Bus {
    on(name: string, listener: (...values: any[]) => void): this;
    once(name: string, listener: (...values: any[]) => void): this;
    off(name: string, listener?: (...values: any[]) => void): this;
    close(): void;
  }

  /** A message to a worker, where it arrives as `'message'`. */
  interface Packet {
    topic?: string;
    data?: unknown;
    type?: string;
    [key: string]: unknown;
  }

  interface Pm2Constructor {
    new (options?: { cwd?: string; pm2_home?: string; independent?: boolean; daemon_mode?: boolean }): Pm2;
  }

  interface Pm2 {
    readonly pm2_home: string;
    readonly cwd: string;
    readonly daemon_mode: boolean;

    connect(callback: Callback): void;
    connect(noDaemon: boolean, callback: Callback): void;
    connect(noDaemon?: boolean): Promise<unknown>;
    disconnect(callback: Callback): void;
    disconnect(): Promise<void>;
    close(callback: Callback): void;
    close(): Promise<void>;
    destroy(callback: Callback): void;
    destroy(): Promise<unknown>;
    launchBus(callback: (error: Error | null, bus: Bus, socket: NodeJS.EventEmitter) => void): void;
    launchBus(): Promise<Bus>;
    disconnectBus(): void;

    start(what: Startable, callback: Callback<Proc[]>): void;
    start(what: Startable, options: StartOptions | null, callback: Callback<Proc[]>): void;
    start(what: Startable, options?: StartOptions | null): Promise<Proc[]>;
    restart(what: Target | StartOptions, callback: Callback<ActedOn[]>): void;
    restart(what: Target | StartOptions, options: StartOptions | null, callback: Callback<ActedOn[]>): void;
    restart(what: Target | StartOptions, options?: StartOptions | null): Promise<ActedOn[]>;
    reload: Pm2['restart'];
    gracefulReload: Pm2['restart'];
    stop(target: Target, callback: Callback<ActedOn[]>): void;
    stop(target: Target): Promise<ActedOn[]>;
    delete(target: Target, callback: Callback<ActedOn[]>): void;
    delete(target: Target): Promise<ActedOn[]>;
    scale(name: string, instances: number | string, callback: Callback<{ success: boolean }>): void;
    scale(name: string, instances: number | string): Promise<{ success: boolean }>;

    list(callback: Callback<Process[]>): void;
    list(): Promise<Process[]>;
    describe(target: Target, callback: Callback<Process[]>): void;
    describe(target: Target): Promise<Process[]>;
    env(target: Target, callback: Callback<Record<string, string>>): void;
    env(target: Target): Promise<Record<string, string>>;
    getPID(callback: Callback<number[]>): void;
    getPID(name: string, callback: Callback<number[]>): void;
    getPID(name?: string): Promise<number[]>;
    getProcessIdByName(name: string, callback: Callback<number[]>): void;
    getProcessIdByName(name: string): Promise<number[]>;
    reset(target: Target, callback: Callback): void;
    reset(target: Target): Promise<unknown>;

    flush(callback: Callback<Process[]>): void;
    flush(target: Target, callback: Callback<Process[]>): void;
    flush(target?: Target): Promise<Process[]>;
    reloadLogs(callback: Callback): void;
    reloadLogs(): Promise<unknown>;
    dump(callback: Callback<{ success: boolean }>): void;
    dump(force: boolean, callback: Callback<{ success: boolean }>): void;
    dump(force?: boolean): Promise<{ success: boolean }>;
    killDaemon(callback: Callback<{ success: boolean }>): void;
    killDaemon(): Promise<{ success: boolean }>;
    kill: Pm2['killDaemon'];
    ping(callback: Callback<{ msg: 'pong' }>): void;
    ping(): Promise<{ msg: 'pong' }>;
    getVersion(callback: Callback<string>): void;
    getVersion(): Promise<string>;

    sendDataToProcessId(id: Target, packet: Packet, callback: Callback): void;
    sendDataToProcessId(packet: Packet & { id: Target }, callback: Callback): void;
    sendDataToProcessId(id: Target, packet: Packet): Promise<unknown>;
    sendSignalToProcessName(signal: string | number, name: string, callback: Callback<Process[]>): void;
    sendSignalToProcessName(signal: string | number, name: string): Promise<Process[]>;
    sendSignalToProcessId(signal: string | number, id: Target, callback: Callback<Process[]>): void;
    sendSignalToProcessId(signal: string | number, id: Target): Promise<Process[]>;
    sendLineToStdin(id: Target, line: string, callback?: Callback): void;
    trigger(target: Target, action: string, callback: Callback<{ process: Head; return: unknown }[]>): void;
    trigger(target: Target, action: string, params: unknown, callback: Callback<{ process: Head; return: unknown }[]>): void;
    trigger(target: Target, action: string, params?: unknown): Promise<{ process: Head; return: unknown }[]>;
    msgProcess(order: { id?: Target; name?: string; msg: string; opts?: unknown }, callback?: Callback): void;

    /** Commands of the command line; the result is their output. */
    resurrect(callback?: Callback<string>): void;
    clearDump(callback?: Callback<string>): void;
    startup(platform: string, callback?: Callback<string>): void;
    uninstallStartup(platform: string, callback?: Callback<string>): void;
    deploy(target: string, callback?: Callback<string>): void;
  }
}

declare const pm2: pm2.Pm2 & { custom: pm2.Pm2Constructor };

export = pm2;
