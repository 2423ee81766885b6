/** Where the official schemas and example messages are, if this machine has them. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const repository = resolve(dirname(fileURLToPath(import.meta.url)), '../..');

/** From `PEERAGE_SPEC_DIR`, else `../shared/spec` beside the repository; `undefined`, with a notice, if absent. */
export const specDir: string | undefined = find();

function find(): string | undefined {
  const folder = process.env['PEERAGE_SPEC_DIR'] ?? join(repository, '../shared/spec');
  if (existsSync(join(folder, 'schema-2026-07-28.json'))) return folder;
  console.info(`skipped: no official schemas in ${folder} (set PEERAGE_SPEC_DIR)`);
  return undefined;
}

/** The JSON Schema of one revision. Call it only where {@link specDir} is defined. */
export function specSchema(revision: string): Record<string, unknown> {
  return JSON.parse(readFileSync(join(specDir!, `schema-${revision}.json`), 'utf8')) as Record<
    string,
    unknown
  >;
}

export interface SpecExample {
  /** Name of the type in the schema. */
  readonly type: string;
  readonly file: string;
  readonly value: unknown;
}

/** Every official example message of 2026-07-28. Empty where {@link specDir} is undefined. */
export function specExamples(): SpecExample[] {
  if (specDir === undefined) return [];
  const root = join(specDir, 'examples-2026-07-28');
  return readdirSync(root).flatMap((type) =>
    readdirSync(join(root, type))
      .filter((file) => file.endsWith('.json'))
      .map((file) => ({
        type,
        file,
        value: JSON.parse(readFileSync(join(root, type, file), 'utf8')) as unknown,
      })),
  );
}
