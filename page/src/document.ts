// The document that a page shows: the JSON of bench, compare, tune or experiment. Everything in it is
// optional and nothing in it is trusted: values of the wrong shape are left out, never drawn wrongly.

export type Scalar = string | number | boolean | null;
export type Json = Scalar | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

/** One point of a line; the last two are the ends of its interval. */
export type LinePoint = { x: number; y: number; low?: number; high?: number };
export type Series = { name: string; points: LinePoint[]; samples?: number };
export type Axis = { label: string; unit: string; log: boolean };

type PlotBase = { title: string; note: string };
export type BlocksPlot = PlotBase & {
  type: 'blocks'; unit: string; better: 'higher' | 'lower';
  /** The mean in the page's table, so that plot and table agree. */
  isGeometric: boolean;
  points: { arm: string; block: number; value: number; disturbed: boolean; counted: boolean }[];
};
export type IntervalsPlot = PlotBase & {
  type: 'intervals'; unit: string; reference: number;
  rows: { name: string; value: number; low?: number; high?: number; note: string }[];
};
export type LinesPlot = PlotBase & { type: 'lines'; x: Axis; y: Axis; series: Series[] };
export type PercentilesPlot = PlotBase & { type: 'percentiles'; unit: string; series: Series[] };
export type TimelinePlot = PlotBase & {
  type: 'timeline'; unit: string; fromZero: boolean; series: Series[]; marks: { at: number; label: string }[];
};
export type WorkersPlot = PlotBase & {
  type: 'workers'; unit: string; chosen?: number; bandPercent: number;
  points: { workers: number; value: number; low?: number; high?: number; raw: number[] }[];
  usl?: { lambda: number; sigma: number; kappa: number };
};
export type BreakdownPlot = PlotBase & {
  type: 'breakdown'; unit: string; parts: string[]; rows: { name: string; values: number[] }[];
};
export type BarsPlot = PlotBase & {
  type: 'bars'; unit: string; rows: { name: string; value: number; low?: number; high?: number; note: string }[];
};
export type ScatterPlot = PlotBase & {
  type: 'scatter'; x: Axis; y: Axis;
  points: { name: string; x: number; y: number; low?: number; high?: number; chosen: boolean; dominated: boolean }[];
};
export type Plot =
  | BlocksPlot | IntervalsPlot | LinesPlot | PercentilesPlot | TimelinePlot
  | WorkersPlot | BreakdownPlot | BarsPlot | ScatterPlot;

export type Table = { title: string; note: string; columns: string[]; rows: Scalar[][]; emphasis?: number };
/** A main figure, in large type. */
export type Tile = { label: string; value: string };
export type TrustCheck = { name: string; ok: boolean | null; value: string; limit: string; meaning: string };

export type Document = {
  kind: string; title: string; headline: string; details: string[]; word: string; tiles: Tile[];
  trustworthy: boolean | null; trustText: string; checks: TrustCheck[];
  tables: Table[]; plots: Plot[]; environment: [string, string][];
  command: string; createdAt: string; version: string;
};

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
export const asObject = (value: unknown): JsonObject => (isObject(value) ? value : {});
export const asList = (value: unknown): Json[] => (Array.isArray(value) ? value : []);
export const asText = (value: unknown): string =>
  typeof value === 'string' ? value : typeof value === 'number' || typeof value === 'boolean' ? String(value) : '';
/** A finite number, or nothing. */
export const asNumber = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) ? value : undefined;
export const isScalar = (value: unknown): value is Scalar => value === null || ['string', 'number', 'boolean'].includes(typeof value);
/** Looks along a path of keys. */
export function at(value: unknown, ...keys: string[]): Json | undefined {
  let here = value as Json | undefined;
  for (const key of keys) {
    if (!isObject(here) || !Object.hasOwn(here, key)) return undefined;
    here = here[key];
  }
  return here;
}
