-- Writes a page for a forge, whose Markdown has no attributes: what others link to gets an anchor,
-- and a figure or table its caption as a paragraph. It follows quarto.lua and the citations.

local stringify = pandoc.utils.stringify
local folder = '' -- where the page is to stand

local function anchor(identifier)
  return pandoc.RawInline('html', '<a id="' .. identifier .. '"></a>')
end

local function captioned(float, content)
  local blocks = pandoc.Blocks { pandoc.Para { anchor(float.identifier) } }
  local caption = pandoc.utils.blocks_to_inlines(float.caption.long)
  blocks:extend(content)
  blocks:insert(pandoc.Para { pandoc.Emph(caption) })
  return blocks
end

local function figure(float)
  return captioned(float, float.content)
end

local function table_(float)
  if float.identifier == '' then return nil end
  local blocks = captioned(float, { float })
  float.identifier, float.caption = '', { long = {} }
  return blocks
end

local function div(element)
  if element.identifier == '' or element.identifier == 'refs' then return element.content end
  local first = element.content[1]
  if first and first.content then first.content:insert(1, anchor(element.identifier)) end
  return element.content
end

local function header(element)
  local identifier = element.identifier
  element.attr = {}
  if not identifier:match '^sec%-' and not identifier:match '^q%-' then return element end
  return { pandoc.Para { anchor(identifier) }, element }
end

local function image(element)
  element.src = pandoc.path.make_relative(element.src, folder, true)
  element.caption, element.attr = { pandoc.Str(stringify(element.caption)) }, {}
  return element
end

local function link(element)
  element.attr = {}
  if element.target:match '^%a+:' then return element end
  element.target = element.target:gsub('%.html$', '.md'):gsub('%.html#', '.md#')
  -- The explorer is a program, which a forge does not run.
  element.target = element.target:gsub('^[./]*explorer%.md$', pandoc.path.make_relative(
    pandoc.path.join { folder:match '^(.*/docs)/', 'measuring.md' }, folder, true) .. '#the-explorer')
  return element
end

function Pandoc(doc)
  folder = stringify(doc.meta['forge-folder'])
  return doc:walk {
    traverse = 'topdown',
    Figure = figure, Table = table_,
  }:walk { Div = div, Header = header, Image = image, Link = link, Span = function(span)
    return span.content
  end }
end
