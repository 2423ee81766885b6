/** This package, as it names itself to servers and on the command line. A test holds it to `package.json`. */
export const PACKAGE_NAME = 'peerage';
export const PACKAGE_VERSION = '0.1.0';
