-- Limits how many messages claims get in a time, by the generic cell rate algorithm (ITU-T I.371). A claimed message takes a
-- token from the bucket of its group and from that of the queue; each interval brings one back, until the bucket is full. All
-- that is stored of a bucket is when it will be full again, so a full one takes no memory.
-- KEYS: buckets, sorted set: group, or '' for the whole queue -> us at which its bucket will be full again; it expires
-- include: clock
local queue_rate, group_rate, micros, full_at, drawn, full_ms, bucket_of, tokens_in, token_at, tokens_of, draw
if rates ~= '' then
  local function rate_in(pattern)
    local interval, burst = string.match(rates, pattern)
    return interval and {interval = tonumber(interval), span = interval * burst}
  end
  queue_rate, group_rate = rate_in('^rate=(%d+)%*(%d+)'), rate_in('group_rate=(%d+)%*(%d+)')
  full_at, drawn = {}, {}
  local span = math.max(queue_rate and queue_rate.span or 0, group_rate and group_rate.span or 0)
  full_ms = string.format('%.0f', math.ceil(span / 1000) + 1000)
  clock()
  micros = began[1] * 1000000 + began[2]
  redis.call('ZCARD', buckets) -- refuses a wrong type before anything is written
  -- Messages of all priorities of a group share its bucket, and so do isolated ones; those without a group have none.
  function bucket_of(name) return string.match(name, '^[^\1\2]+') end
  local function full(rate, bucket)
    if not full_at[bucket] then
      full_at[bucket] = math.max(micros, tonumber(redis.call('ZSCORE', buckets, bucket) or 0))
      -- A time beyond the span of an empty bucket is from another rate, or from before the clock was set back.
      if full_at[bucket] > micros + rate.span then
        full_at[bucket] = micros + rate.span
        redis.call('PEXPIRE', buckets, full_ms) -- Redis allows this write at maxmemory, and then the later ones
        redis.call('ZADD', buckets, string.format('%.0f', full_at[bucket]), bucket)
      end
    end
    return full_at[bucket]
  end
  function tokens_in(rate, bucket) return math.floor((micros + rate.span - full(rate, bucket)) / rate.interval) end
  -- Returns when a bucket will have a token, in ms; 0 if it has one now.
  function token_at(rate, bucket)
    local at = full(rate, bucket) + rate.interval - rate.span
    return at > micros and math.ceil(at / 1000) or 0
  end
  function tokens_of(name)
    local bucket = bucket_of(name)
    return bucket and tokens_in(group_rate, bucket) or math.huge
  end
  function draw(rate, bucket, n)
    full_at[bucket] = full(rate, bucket) + n * rate.interval
    drawn[#drawn + 1], drawn[#drawn + 2] = string.format('%.0f', full_at[bucket]), bucket
  end
end
