-- Teaches Pandoc the part of Quarto's Markdown that the paper uses.
--
-- This filter numbers figures, tables and sections once for HTML and PDF; the templates switch off
-- the writers' own numbers. A warning makes the preview fail.

local stringify = pandoc.utils.stringify

local NAMES = { fig = 'Figure', tbl = 'Table', sec = 'Section' }
local counts = { fig = 0, tbl = 0 }
local labels = {} -- label → { name = 'Figure', number = '1' }

local function warn(...)
  pandoc.log.warn(string.format(...))
end

local function kind_of(label)
  local kind = label:match '^(%a+)%-'
  return NAMES[kind] and kind
end

local function add_label(label, name, number)
  if labels[label] then warn('label %s is used twice (allowed: once)', label) end
  labels[label] = { name = name, number = number }
end

-- Images and links

-- Pandoc repeats a figure's caption as its alternative text; Quarto takes fig-alt for it.
local function drop_repeated_caption(figure)
  return figure:walk { Image = function(image) image.caption = {} return image end }
end

local function resolve_image(image, root)
  if kind_of(image.identifier) then
    warn('%s has no caption or is no paragraph of its own', image.identifier)
  end
  local path = image.src:gsub('%%(%x%x)', function(hex) return string.char(tonumber(hex, 16)) end)
  local folder = path:match '^/' and root or pandoc.system.get_working_directory()
  image.src = pandoc.path.normalize(pandoc.path.join { folder, (path:gsub('^/', '')) })
  if not pandoc.path.exists(image.src, 'file') then
    warn('no image %s (allowed: files of the project)', path)
    return image.caption
  end
  image.caption = image.attributes['fig-alt'] or image.caption
  image.attributes['fig-alt'] = nil
  return image
end

local function link_to_page(link)
  if link.target:match '^%a+:' then return nil end
  link.target = link.target:gsub('%.qmd$', '.html'):gsub('%.qmd#', '.html#')
  return link
end

-- Divs of the page

local function select_format(div)
  local visible = div.classes:includes 'content-visible'
  if not visible and not div.classes:includes 'content-hidden' then return nil end
  local format = div.attributes['when-format']
  if format ~= 'html' and format ~= 'typst' then
    warn('%s when-format=%s (allowed: html, typst)', div.classes[1], format)
  end
  return visible == (format == FORMAT) and div.content or {}
end

local function callout(div)
  local kind = table.concat(div.classes, ' '):match 'callout%-(%a+)'
  if not kind then return nil end
  local title = pandoc.Inlines(kind:gsub('^%a', string.upper))
  if div.attributes.title then
    title = pandoc.utils.blocks_to_inlines(pandoc.read(div.attributes.title).blocks)
  elseif div.content[1] and div.content[1].t == 'Header' then
    title = div.content:remove(1).content
  end
  div.content:insert(1, pandoc.Para { pandoc.Strong(title) })
  if FORMAT == 'html' then
    return pandoc.Div(div.content, { class = 'callout callout-' .. kind })
  end
  div.content:insert(1, pandoc.RawBlock('typst', '#callout("' .. kind .. '")['))
  div.content:insert(pandoc.RawBlock('typst', ']'))
  return div.content
end

-- Notebooks write some tables in HTML only, which Typst cannot show.
local function html_table(raw)
  local blocks = pandoc.read(raw.text, 'html-native_divs').blocks
  local tables = blocks:filter(function(block) return block.t == 'Table' end)
  return #tables > 0 and tables or nil
end

local function prepare_div(div)
  if div.classes:includes 'cell' then div = div:walk { RawBlock = html_table } end
  return select_format(div) or callout(div) or div
end

-- Sections

-- A page may start at the second level, below its title; its sections still count from 1.
local function promote_headers(blocks)
  local top = 6
  blocks:walk { Header = function(header) top = math.min(top, header.level) end }
  local function promote(header) header.level = header.level - top + 1 return header end
  return blocks:walk { Header = promote }
end

local function label_sections(blocks, numbered)
  local function label(section)
    local header = section.content[1]
    if kind_of(section.identifier) == 'sec' and header and header.t == 'Header' then
      local number = numbered and section.attributes.number
      add_label(section.identifier, number and NAMES.sec, number or stringify(header))
    end
  end
  pandoc.Blocks(pandoc.utils.make_sections(true, nil, blocks)):walk { Div = label }
end

-- Figures and tables

local function number_float(float, kind)
  counts[kind] = counts[kind] + 1
  add_label(float.identifier, NAMES[kind], tostring(counts[kind]))
  local caption = float.caption.long[1]
  if caption then
    caption.content:insert(1, string.format('%s\u{a0}%d: ', NAMES[kind], counts[kind]))
  else
    warn('%s has no caption', float.identifier)
  end
  return float, false
end

local function figure(float)
  if kind_of(float.identifier) == 'fig' then return number_float(float, 'fig') end
end

local function table_(float)
  -- Pandoc takes column widths from the dashes of the source; both formats choose better ones.
  float.colspecs = float.colspecs:map(function(spec) return { spec[1] } end)
  if kind_of(float.identifier) == 'tbl' then return number_float(float, 'tbl') end
  return float
end

-- Quarto's Div for a figure or table: its last paragraph is the caption.
local function float_div(div)
  local kind = kind_of(div.identifier)
  if not counts[kind] then return nil end
  local caption = {}
  if #div.content > 1 and div.content[#div.content].t == 'Para' then
    caption = { pandoc.Plain(div.content:remove().content) }
  end
  local float = div.content[1]
  if #div.content ~= 1 or float.t ~= 'Table' then
    return number_float(pandoc.Figure(div.content, { long = caption }, div.attr), kind)
  end
  float.identifier, float.caption = div.identifier, { long = caption }
  return table_(float)
end

-- A table that the page's own filters did not put into such a Div may be wide, too.
local function scroll_if_wide(blocks)
  if FORMAT ~= 'html' then return blocks end
  return blocks:walk {
    traverse = 'topdown',
    Div = function(div) if div.classes:includes 'wide' then return div, false end end,
    Table = function(float) return pandoc.Div(float, { class = 'wide' }), false end,
  }
end

-- Cross-references

local function reference(citation)
  local label = labels[citation.id]
  if not label then
    local known = pandoc.List {}
    for name in pairs(labels) do known:insert(name) end
    known:sort()
    warn('unresolved cross-reference @%s (known: %s)', citation.id, table.concat(known, ', '))
    return {}
  end
  local text = label.number
  local inlines = pandoc.Inlines(citation.prefix)
  if #inlines > 0 then
    inlines:insert '\u{a0}'
  elseif label.name and citation.mode ~= 'SuppressAuthor' then
    text = label.name .. '\u{a0}' .. text
  end
  inlines:insert(pandoc.Link(text, '#' .. citation.id))
  return inlines .. citation.suffix
end

local function resolve_cite(cite)
  local ours = cite.citations:filter(function(citation) return kind_of(citation.id) end)
  if #ours == 0 then return nil end
  if #ours < #cite.citations then
    warn('%s mixes cross-references and citations', stringify(cite.content))
  end
  local inlines = pandoc.Inlines {}
  for i, citation in ipairs(ours) do
    if i > 1 then inlines:insert ', ' end
    inlines:extend(reference(citation))
  end
  return inlines
end

function Pandoc(doc)
  local root = doc.meta['preview-root']
  local function image(element) return resolve_image(element, root) end
  doc = doc:walk { Div = prepare_div, Figure = drop_repeated_caption }
  doc = doc:walk { Image = image, Link = link_to_page }
  doc.blocks = promote_headers(doc.blocks)
  label_sections(doc.blocks, doc.meta['number-sections'])
  doc.blocks = doc.blocks:walk {
    traverse = 'topdown', Div = float_div, Figure = figure, Table = table_,
  }
  doc.blocks = scroll_if_wide(doc.blocks)
  return doc:walk { Cite = resolve_cite }
end
