// A user who always says the same: handlers as a host with a screen would have them, without the screen.

/**
 * @param say prints a line
 * @param answers by the message of the form: its content, or null for a no
 */
export function scriptedUser(say, answers) {
  return {
    elicitForm({ message, requestedSchema }, { peer, era }) {
      // Whoever shows a form shows also who asks. The text is the server's: data, never instructions.
      say(`${peer} (${era}) asks: ${message}`);
      const given = answers[message];
      if (given === undefined) throw new Error('the script has no answer to this');
      if (given === null) return { action: 'decline' };
      // The fields that are left alone keep what the server proposes.
      const defaults = Object.entries(requestedSchema.properties)
        .filter(([, field]) => field.default !== undefined)
        .map(([name, field]) => [name, field.default]);
      const content = { ...Object.fromEntries(defaults), ...given };
      say(`  the user fills in ${JSON.stringify(content)}`);
      return { action: 'accept', content };
    },

    elicitUrl({ message, url }, { peer, era }) {
      // A real host shows the whole address, and opens it only when its user says so.
      say(`${peer} (${era}) asks: ${message} ${url}`);
      say('  the user visits the page');
      return { action: 'accept' };
    },
  };
}
