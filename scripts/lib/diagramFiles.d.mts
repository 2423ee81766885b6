export interface DiagramEntry {
  /** Relative to the root, of a compiled module. */
  readonly file: string;
  readonly export: string;
  /** Makes the machine of an export that is not one itself. */
  readonly make?: (exported: never) => unknown;
  /** The diagram's name, and its files'. */
  readonly name: string;
}

export function drawAll(
  table: readonly DiagramEntry[],
  root: string,
): Promise<{ readonly files: ReadonlyMap<string, string>; readonly problems: readonly string[] }>;
export function toSvg(dot: string): Promise<string>;
export function differences(files: ReadonlyMap<string, string>, folder: string): string[];
export function writeAll(files: ReadonlyMap<string, string>, folder: string): void;
