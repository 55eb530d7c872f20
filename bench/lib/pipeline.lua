-- So many requests in one write: what wrk has in the place of an option. `wrk -s pipeline.lua URL -- 10`
init = function(args)
  local requests = {}
  for i = 1, tonumber(args[1]) do requests[i] = wrk.format() end
  batch = table.concat(requests)
end

request = function() return batch end
