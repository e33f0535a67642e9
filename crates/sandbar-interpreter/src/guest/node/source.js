// From the text of a cell to a script that can be run after others in the same global scope.
//
// `const`, `let` and `class` at the top become `var`, so that a later cell may declare the name again. Code that awaits
// runs in an async function whose variables are bound to properties of the global object, so that later cells see
// them, and changes of them, too.

const acorn = load('acorn');

const OPTIONS = {
  ecmaVersion: 'latest',
  sourceType: 'script',
  allowAwaitOutsideFunction: true,
  allowHashBang: true,
  allowImportExportEverywhere: true,
};

const isNode = (value) => value !== null && typeof value === 'object' && typeof value.type === 'string';
const isFunction = (node) => /Function/.test(node.type);

// Visits every node. `inside` tells whether it is in a function, whose variables and awaits are its own.
function walk(node, visit, inside = false) {
  visit(node, inside);
  const isOwn = inside || isFunction(node) || node.type === 'StaticBlock' || node.type === 'PropertyDefinition';
  for (const value of Object.values(node)) {
    if (Array.isArray(value)) value.filter(isNode).forEach((child) => walk(child, visit, isOwn));
    else if (isNode(value)) walk(value, visit, isOwn);
  }
}

// The names a pattern binds.
function boundNames(pattern) {
  switch (pattern && pattern.type) {
    case 'Identifier':
      return [pattern.name];
    case 'ObjectPattern':
      return pattern.properties.flatMap((property) => boundNames(property.value || property.argument));
    case 'ArrayPattern':
      return pattern.elements.flatMap(boundNames);
    case 'AssignmentPattern':
      return boundNames(pattern.left);
    case 'RestElement':
      return boundNames(pattern.argument);
    default:
      return [];
  }
}

const declaredNames = (declaration) => declaration.declarations.flatMap(({ id }) => boundNames(id));

// `import a, {b as c} from 'm'` as a declaration.
function importText({ specifiers, source }) {
  const from = `await __sandbarImport(${source.raw})`;
  const whole = specifiers.find(({ type }) => type === 'ImportNamespaceSpecifier');
  const parts = specifiers
    .filter((specifier) => specifier !== whole)
    .map(({ imported, local }) => `${imported ? imported.raw || imported.name : 'default'}: ${local.name}`);
  if (whole && parts.length) return `var ${whole.local.name} = ${from}, {${parts.join(', ')}} = ${whole.local.name};`;
  if (whole) return `var ${whole.local.name} = ${from};`;
  return parts.length ? `var {${parts.join(', ')}} = ${from};` : `${from};`;
}

// What to change in a cell, the names it declares at its top, and whether it has to be an async function.
function understand(code) {
  const program = acorn.parse(code, OPTIONS);
  const edits = [];
  const names = [];
  let awaits = false;
  const edit = (start, end, text) => edits.push({ start, end, text });

  function statement(node) {
    if (node.type === 'VariableDeclaration' && ['const', 'let'].includes(node.kind)) {
      edit(node.start, node.start + node.kind.length, 'var'.padEnd(node.kind.length));
      names.push(...declaredNames(node));
    } else if (node.type === 'ClassDeclaration') {
      edit(node.start, node.start, `var ${node.id.name} = `);
      edit(node.end, node.end, ';');
      names.push(node.id.name);
    } else if (node.type === 'FunctionDeclaration') {
      names.push(node.id.name);
    } else if (node.type === 'ImportDeclaration') {
      // A line break in it stays, for the numbers of the lines after it.
      const lines = code.slice(node.start, node.end).split('\n').length - 1;
      edit(node.start, node.end, importText(node) + '\n'.repeat(lines));
      names.push(...node.specifiers.map(({ local }) => local.name));
      awaits = true;
    } else if (node.type === 'ExportNamedDeclaration' && node.declaration) {
      edit(node.start, node.declaration.start, '');
      statement(node.declaration);
    }
  }

  program.body.forEach(statement);
  walk(program, (node, inside) => {
    if (node.type === 'ImportExpression') edit(node.start, node.start + 'import'.length, '__sandbarImport');
    if (inside) return;
    if (node.type === 'VariableDeclaration' && node.kind === 'var') names.push(...declaredNames(node));
    if (node.type === 'AwaitExpression' || (node.type === 'ForOfStatement' && node.await)) awaits = true;
    if (node.type === 'VariableDeclaration' && node.kind === 'await using') awaits = true;
  });
  edits.sort((one, other) => one.start - other.start || one.end - other.end);
  const last = program.body[program.body.length - 1];
  const value = last && last.type === 'ExpressionStatement' ? last.expression : undefined;
  return { edits, names: [...new Set(names)], awaits, value, last };
}

function apply(code, edits, start, end) {
  let text = '';
  let at = start;
  for (const edit of edits) {
    if (edit.start < start || edit.end > end) continue;
    text += code.slice(at, edit.start) + edit.text;
    at = edit.end;
  }
  return text + code.slice(at, end);
}

// The cell in an async function that gives the value of the last expression, when it ends with one.
function asyncText(code, { edits, names, value, last }) {
  const bound = names.map((name) => `${name}: [() => ${name}, ($) => { ${name} = $; }]`);
  // What is between the two is brackets and comments.
  const body = value
    ? `${apply(code, edits, 0, last.start)}return (${code.slice(last.start, value.start).replace(/[^\n]/g, '')}${apply(code, edits, value.start, value.end)}\n)`
    : apply(code, edits, 0, code.length);
  return `(async () => { __sandbarBind({${bound.join(', ')}}); ${body}\n})()`;
}

// Braces at the beginning are most likely an object, as people mean it.
function asObject(code) {
  if (!/^\s*\{/.test(code) || !/\}\s*$/.test(code)) return code;
  const text = `(${code.trim()})`;
  try {
    acorn.parse(text, OPTIONS);
    return text;
  } catch {
    return code;
  }
}

// The script of a cell and the names it declares. `compile` gives a script or throws a SyntaxError.
function prepare(code, compile) {
  const text = asObject(code);
  let understood;
  try {
    understood = understand(text);
  } catch (error) {
    // Node shows the line of a mistake. What it takes though acorn does not is newer than acorn.
    return { script: compile(code), names: [] };
  }
  if (understood.awaits) return { script: compile(asyncText(text, understood)), names: [] };
  try {
    return { script: compile(apply(text, understood.edits, 0, text.length)), names: understood.names };
  } catch (error) {
    // What was written is to be shown, not what became of it.
    compile(code);
    throw error;
  }
}

return { prepare };
