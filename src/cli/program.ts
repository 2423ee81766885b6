/** The command line: what may be written, and which command runs. Pure but for the {@link CliIo} it is given. */
import { Command, CommanderError, Option } from 'commander';
import { ConfigurationError } from '../host/errors.js';
import { PACKAGE_VERSION } from '../host/version.js';
import { EXIT, UsageError } from './exit.js';
import type { CliIo } from './io.js';
import { oneLine } from './output.js';
import type { CommandContext } from './session.js';
import type { SourceFlags } from './source.js';

const EXAMPLES = `
Examples:
  $ peerage probe                                       every peer of ./peerage.json
  $ peerage probe --config hosts.json archive notes     two peers of another file
  $ peerage probe -- npx -y some-mcp-server             one server, without a file
  $ peerage probe --url https://example.com/mcp --header 'Authorization: Bearer …'
  $ peerage tools --json
  $ peerage call read_note --args '{"id": 1}'
  $ peerage call read_note --args @arguments.json --allow-legacy -- node server.mjs

Exit codes:
  0    all asked-for peers are callable, and the call was ok
  1    a peer or the tool failed
  2    wrong usage or configuration
  130  interrupted`;

type Flags = SourceFlags & { readonly json?: boolean };

/**
 * Runs one command line.
 *
 * @param args without the executable and the script
 * @returns the exit code; rejects only for a fault of this package
 */
export async function runCli(args: readonly string[], io: CliIo): Promise<number> {
  const [own, inline] = splitAtDashes(args);
  let code: number = EXIT.ok;
  const program = createProgram(io, async (flags, run) => {
    // Loaded only now: --help and --version need none of it.
    const [{ readSource }, { tellSource }] = await Promise.all([
      import('./source.js'),
      import('./session.js'),
    ]);
    const context = { io, source: await readSource(flags, inline, io.env), json: flags.json === true };
    tellSource(context);
    code = await run(context);
  });
  try {
    await program.parseAsync([...own], { from: 'user' });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    if (error instanceof UsageError || error instanceof ConfigurationError) {
      io.stderr.write(`peerage: ${oneLine(error.message, 4_096)}\n`);
      return EXIT.usage;
    }
    throw error;
  }
}

/** What stands after the first `--` is a command with its arguments: none of it is read as ours. */
function splitAtDashes(args: readonly string[]): readonly [readonly string[], readonly string[] | null] {
  const at = args.indexOf('--');
  return at < 0 ? [args, null] : [args.slice(0, at), args.slice(at + 1)];
}

type Go = (flags: Flags, run: (context: CommandContext) => Promise<number>) => Promise<void>;

function createProgram(io: CliIo, go: Go): Command {
  const program = new Command('peerage')
    .description('An MCP client host that never guesses which protocol era a server speaks.')
    .version(PACKAGE_VERSION)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      getOutHelpWidth: () => io.stdout.columns ?? 100,
      getErrHelpWidth: () => io.stderr.columns ?? 100,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .showHelpAfterError('(--help tells what is allowed)')
    .addHelpText('after', EXAMPLES);

  withSourceOptions(program.command('probe'))
    .description('negotiate once with each peer and tell how it stands')
    .argument('[peers...]', 'only these peers of the file')
    .action((names: string[], flags: Flags) =>
      go(flags, async (context) => (await import('./commands/probe.js')).runProbe(context, names)),
    );
  withSourceOptions(program.command('tools'))
    .description('list the tools of all peers, as a model would see them')
    .action((flags: Flags) =>
      go(flags, async (context) => (await import('./commands/tools.js')).runTools(context)),
    );
  withSourceOptions(program.command('call'))
    .description('call one tool by its name in the list')
    .argument('<name>', 'as `peerage tools` shows it')
    .option('--args <json>', 'a JSON object, @file, or - for stdin', '{}')
    .action((name: string, flags: Flags & { readonly args: string }) =>
      go(flags, async (context) => (await import('./commands/call.js')).runCall(context, name, flags.args)),
    );
  return program;
}

function withSourceOptions(command: Command): Command {
  return command
    .usage('[options] [arguments] [-- command args…]')
    .option('--config <file>', 'configuration file (default: ./peerage.json)')
    .option('--url <url>', 'one HTTP server instead of a file')
    .addOption(
      new Option('--header <line>', "'Name: value', sent with --url; repeatable").argParser(
        (line: string, before: readonly string[] | undefined) => [...(before ?? []), line],
      ),
    )
    .option('--allow-legacy', 'let the inline server (-- or --url) get one legacy probe')
    .option('--probe-timeout-ms <n>', 'deadline of one probe (default: 15000)')
    .option('--legacy-probe-timeout-ms <n>', 'deadline of the legacy probe (default: 15000)')
    .option('--call-timeout-ms <n>', 'deadline of a call (default: 60000)')
    .addOption(
      new Option('--collisions <policy>', 'how tools of one name are told apart').choices([
        'prefix',
        'prefix-always',
        'reject',
      ]),
    )
    .option('--json', 'one JSON document on stdout');
}
