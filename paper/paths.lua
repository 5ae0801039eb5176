-- Quarto marks an embedded cell with the absolute path of its notebook. Keep the file's name only, so
-- that the pages are the same wherever the checkout is. Links to pages name their HTML.

function Div(div)
  local notebook = div.attributes.notebook
  if not div.classes:includes('quarto-embed-nb-cell') or not notebook then return nil end
  div.attributes.notebook = pandoc.path.filename(notebook)
  return div
end

function Link(link)
  if link.target:match('^%a+:') then return nil end
  link.target = link.target:gsub('%.qmd$', '.html'):gsub('%.qmd#', '.html#')
  return link
end
