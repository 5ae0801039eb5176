-- How figures and tables are laid out: in the PDF they float; on a page each table stands in a Div that
-- scrolls, marked if it has texts, and a long one is folded until a reader opens or prints it.

local LONG = 25 -- rows
local TEXT = 60 -- characters of a cell that need a wide column, also on a phone
local UNFOLD = [[<script>
addEventListener('beforeprint', () => document.querySelectorAll('details').forEach((e) => { e.open = true }))
</script>]]

-- Typst floats no figure that stands in a block, and would write one for each of these Divs.
local CELL = pandoc.List { 'quarto-embed-nb-cell', 'cell', 'cell-output' }

local function unwrap(div)
  local is_cell = CELL:find_if(function(class) return div.classes:includes(class) end)
  return is_cell and div.identifier == '' and div.content or nil
end

local folded = false

local function lay_out(tbl)
  local rows, longest = 0, 0
  for _, body in ipairs(tbl.bodies) do
    for _, row in ipairs(body.body) do
      rows = rows + 1
      for _, cell in ipairs(row.cells) do
        longest = math.max(longest, pandoc.text.len(pandoc.utils.stringify(cell.contents)))
      end
    end
  end
  local class = longest > TEXT and 'wide texts' or 'wide'
  local blocks = pandoc.Blocks { pandoc.Div(tbl, { class = class }) }
  if rows > LONG then
    folded = true
    blocks:insert(1, pandoc.RawBlock('html', string.format('<details><summary>All %d rows</summary>', rows)))
    blocks:insert(pandoc.RawBlock('html', '</details>'))
  end
  return blocks, false
end

local function unfold_in_print(document)
  if folded then document.blocks:insert(pandoc.RawBlock('html', UNFOLD)) end
  return document
end

if FORMAT:match('typst') then return { { Div = unwrap } } end
if FORMAT:match('html') then return { { traverse = 'topdown', Table = lay_out }, { Pandoc = unfold_in_print } } end
return {}
