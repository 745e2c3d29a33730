-- Isolated and other messages take turns: of two consecutive claims, one takes isolated messages and one takes others.
-- A claim adds one to the fence, any other use adds two, so the fence's parity alternates with the claims. Which of
-- the two comes first varies (by the golden ratio, whose multiples repeat no pattern). Otherwise consumers that take
-- turns themselves would get the same kind each time.
local function is_turn_of_isolated(fence)
  local swapped = math.floor(fence / 2) * 0.618 % 1 < 0.5
  return (fence % 2 == 0) ~= swapped
end
