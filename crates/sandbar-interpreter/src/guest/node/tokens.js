// The tokens of JavaScript and TypeScript, as far as can be told without a parser.

const OPERATOR_WORDS = new Set(
  'typeof return in of instanceof new delete void await yield case else do throw const let var extends default async'.split(' '),
);
const CONTINUING_WORDS = new Set('else catch finally in instanceof of'.split(' '));
const CONTROL_WORDS = new Set('if for while switch catch with'.split(' '));
const OPENING = new Set(['(', '[', '{', '${']);
const CLOSING = new Set([')', ']', '}']);

function canEnd(token) {
  if (!token) return false;
  if (token.kind === 'word') return !OPERATOR_WORDS.has(token.text);
  if (token.kind === 'template') return !token.text.endsWith('${');
  return token.kind !== 'sign' || [')', ']', '}', '++', '--'].includes(token.text);
}

// Tokens with their depth of brackets. A token that opens or closes a bracket has the depth outside of it.
function scan(code) {
  const tokens = [];
  const open = [];
  let at = 0;
  let newline = false;
  const push = (kind, end) => {
    tokens.push({ kind, text: code.slice(at, end), start: at, end, depth: open.length, newline });
    newline = false;
    at = end;
  };
  const match = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(code);
    return found ? found[0].length : 0;
  };
  // The rest of a template up to its end or to the next `${`.
  const template = (from) => {
    let end = from;
    while (end < code.length && code[end] !== '`' && !(code[end] === '$' && code[end + 1] === '{')) {
      end += code[end] === '\\' ? 2 : 1;
    }
    const ends = code[end] !== '$';
    push('template', Math.min(end + (ends ? 1 : 2), code.length));
    if (!ends) open.push({ index: tokens.length - 1, template: true });
  };
  while (at < code.length) {
    let length;
    if ((length = match(/\s+/y))) {
      newline = newline || code.slice(at, at + length).includes('\n');
      at += length;
    } else if ((length = match(/\/\/.*|#!.*|\/\*[\s\S]*?\*\//y))) {
      newline = newline || code.slice(at, at + length).includes('\n');
      at += length;
    } else if ((length = match(/#?[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*/uy))) {
      push('word', at + length);
    } else if ((length = match(/0[xXbBoO][\da-fA-F_]+n?|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d[\d_]*)?n?/y))) {
      push('number', at + length);
    } else if ((length = match(/"(?:[^"\\\n]|\\[\s\S])*"|'(?:[^'\\\n]|\\[\s\S])*'/y))) {
      push('string', at + length);
    } else if (code[at] === '`') {
      template(at + 1);
    } else if (
      code[at] === '/' &&
      !endsValue(tokens, open) &&
      (length = match(/\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y))
    ) {
      push('regex', at + length);
    } else if (code[at] === '}' && open.length && open[open.length - 1].template) {
      open.pop();
      template(at + 1);
    } else {
      length = match(/=>|\?\.|\.\.\.|\+\+|--|[-+*/%&|^<>=!?~]+|./suy) || 1;
      const text = code.slice(at, at + length);
      if (CLOSING.has(text)) {
        const opened = open.pop();
        push('sign', at + length);
        tokens[tokens.length - 1].opened = opened ? opened.index : undefined;
        if (opened) tokens[opened.index].closed = tokens.length - 1;
      } else {
        push('sign', at + length);
        if (OPENING.has(text)) open.push({ index: tokens.length - 1 });
      }
    }
  }
  return tokens;
}

// Whether a slash after these tokens divides. After `)` of `if (…)` it begins a regular expression, which is rare.
function endsValue(tokens) {
  return canEnd(tokens[tokens.length - 1]);
}

function isStart(tokens, index) {
  const token = tokens[index];
  const before = tokens[index - 1];
  if (token.kind === 'word' && CONTINUING_WORDS.has(token.text)) return false;
  if (!before || before.text === ';' || before.endsImport) return true;
  const carriesOn = token.kind === 'template' || (token.kind === 'sign' && !['{', '!', '~', '++', '--'].includes(token.text));
  if (carriesOn) return false;
  return before.text === '}' || (token.newline && canEnd(before));
}

return { CONTROL_WORDS, canEnd, isStart, scan };
