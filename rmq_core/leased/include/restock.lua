-- Moves messages of a stage to ready, all at once where ready is empty; returns how many.
-- include: take
local function restock(stage, held, most)
  return redis.call('RENAMENX', stage, ready) == 1 and held or take(stage, ready, most)
end
