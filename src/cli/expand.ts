/** `${NAME}`, `${NAME:-default}` and `${env:NAME}` in configured values. One pass; nothing is executed. */

export type Expanded =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly came: string; readonly allowed: string };

const REFERENCE = /\$?\$\{([^}]*)\}/g;
const VARIABLE = /^(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$/s;

/**
 * Puts the environment's values in. A default is used where the variable is unset or empty; `$${` stands for a
 * literal `${`. What a variable holds is not looked into again.
 *
 * @returns what is wrong names the variable, never a value
 */
export function expandVariables(text: string, env: Readonly<Record<string, string | undefined>>): Expanded {
  let problem: Expanded | undefined;
  const expanded = text.replace(REFERENCE, (whole, inside: string) => {
    if (whole.startsWith('$$')) return whole.slice(1);
    const [, name, byDefault] = VARIABLE.exec(inside) ?? [];
    if (name === undefined) {
      // What stands before a ":" is a kind of reference (`input:`, `cmd:`); what comes after may be anything.
      const kind = /^[A-Za-z]{1,20}(?=:)/.exec(inside)?.[0];
      problem ??= {
        ok: false,
        came: kind === undefined ? 'a reference that is no variable' : `a reference \${${kind}:…}`,
        // biome-ignore lint/suspicious/noTemplateCurlyInString: this is what one writes in the file
        allowed: '${NAME}, ${NAME:-default} and ${env:NAME} ($${ for a literal ${)',
      };
      return '';
    }
    const value = Object.hasOwn(env, name) ? env[name] : undefined;
    if (value !== undefined && (value !== '' || byDefault === undefined)) return value;
    if (byDefault !== undefined) return byDefault;
    problem ??= {
      ok: false,
      came: `\${${name}}, and the environment variable ${name} is not set`,
      allowed: `a variable that is set, or \${${name}:-default}`,
    };
    return '';
  });
  return problem ?? { ok: true, text: expanded };
}
