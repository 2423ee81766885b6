/** `peerage call`: one call of one tool. */
import { open } from 'node:fs/promises';
import type { CallOutcome, ToolResult } from '../../calls/outcome.js';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/jsonRpc.js';
import { EXIT, UsageError } from '../exit.js';
import { failureBlock } from '../failures.js';
import type { CliIo } from '../io.js';
import { manyLines, mapStrings, oneLine, toJson } from '../output.js';
import { type CommandContext, type Session, withHost } from '../session.js';
import { themeOf } from '../theme.js';

/** Longest arguments, as the longest message that is accepted from a server by default. */
const MAX_ARGS_BYTES = 16 * 1024 * 1024;

/**
 * Calls and prints the result on stdout, all about it on stderr. Exit code 1 unless the status is `ok`.
 *
 * @param args JSON, `@file` or `-` for stdin
 */
export async function runCall(context: CommandContext, name: string, args: string): Promise<number> {
  const { io, json } = context;
  const parsed = await readArguments(args, io);
  if (parsed === null) return EXIT.interrupted;
  return withHost(context, async (session) => {
    if (session.refusal !== null) return EXIT.failed;
    const outcome = await session.host.call(name, parsed, { signal: io.interrupted });
    if (io.interrupted.aborted) return EXIT.interrupted;
    if (json) io.stdout.write(`${toJson(withoutSecrets(outcome, session))}\n`);
    else tellOutcome(outcome, session, io);
    return outcome.status === 'ok' ? EXIT.ok : EXIT.failed;
  });
}

/** What the tool said is left as it came; what a failure says may repeat what was configured. */
function withoutSecrets(outcome: CallOutcome, { redact }: Session): unknown {
  return outcome.result !== undefined ? outcome : mapStrings(outcome, redact);
}

function tellOutcome(outcome: CallOutcome, session: Session, io: CliIo): void {
  const theme = themeOf(io.stderr, io.env);
  const ok = outcome.status === 'ok';
  const about = [
    theme.paint(ok ? 'green' : 'red', outcome.status),
    oneLine(outcome.tool, 200),
    ...(outcome.peer === null ? [] : [`of ${outcome.peer}`]),
    ...(outcome.era === null ? [] : [`${outcome.era} ${outcome.revision ?? ''}`.trim()]),
    `${Math.round(outcome.durationMs)} ms`,
  ].join(theme.paint('dim', ' · '));
  if (outcome.result !== undefined) io.stdout.write(`${resultText(outcome.result)}\n`);
  io.stderr.write(`${about}\n`);
  if (outcome.result !== undefined) return;
  io.stderr.write(`${oneLine(session.redact(outcome.message), 2_000)}\n`);
  if (outcome.delivery === 'unknown') io.stderr.write('The request may have been executed: nobody knows.\n');
  if (outcome.delivery === 'not-sent') io.stderr.write('Nothing was sent.\n');
  const failures = failureBlock({ ...session, theme });
  if (outcome.peer === null && failures !== '') io.stderr.write(`${failures}\n`);
}

/** Text blocks as they read; other blocks as a note of what they are; structured content where there is no block. */
export function resultText(result: ToolResult): string {
  if (result.content.length === 0 && result.structuredContent !== undefined)
    return toJson(result.structuredContent);
  return result.content.map(blockText).join('\n');
}

function blockText(block: JsonObject): string {
  const { type, text, resource, data, mimeType, uri } = block;
  if (type === 'text' && typeof text === 'string') return manyLines(text);
  if (type === 'resource' && isJsonObject(resource) && typeof resource['text'] === 'string') {
    return manyLines(resource['text']);
  }
  const notes = [type, mimeType, uri, isJsonObject(resource) ? resource['uri'] : undefined]
    .filter((note): note is string => typeof note === 'string')
    .map((note) => oneLine(note, 300));
  const size = typeof data === 'string' ? [`${data.length} characters of base64`] : [];
  return `[${[...notes, ...size].join(', ')}]`;
}

/** `null`: interrupted while waiting for stdin. @throws {UsageError} never showing the arguments */
async function readArguments(args: string, io: CliIo): Promise<JsonObject | null> {
  const text = await textOf(args, io);
  if (text === null) return null;
  let value: JsonValue;
  try {
    value = JSON.parse(text) as JsonValue;
  } catch {
    throw new UsageError(
      '--args: got something that is no JSON; allowed is a JSON object, @file or - for stdin',
    );
  }
  if (!isJsonObject(value)) throw new UsageError('--args: allowed is a JSON object, such as {"path": "."}');
  return value;
}

async function textOf(args: string, io: CliIo): Promise<string | null> {
  const tooLong = `--args: allowed are ${MAX_ARGS_BYTES} bytes`;
  if (args === '-') {
    const interrupted = new Promise<null>((resolve) => {
      if (io.interrupted.aborted) resolve(null);
      else io.interrupted.addEventListener('abort', () => resolve(null), { once: true });
    });
    return Promise.race([io.readStdin(MAX_ARGS_BYTES), interrupted]).catch((error: unknown) => {
      throw error instanceof RangeError ? new UsageError(tooLong) : error;
    });
  }
  if (!args.startsWith('@')) return args;
  const file = args.slice(1);
  const handle = await open(file).catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`--args: ${file} cannot be opened (${error.code})`);
  });
  try {
    const stat = await handle.stat();
    if (stat.isDirectory()) throw new UsageError(`--args: ${file} is a folder`);
    if (stat.size > MAX_ARGS_BYTES) throw new UsageError(tooLong);
    return await handle.readFile('utf8');
  } finally {
    await handle.close();
  }
}
