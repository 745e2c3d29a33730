-- Tells how far an import has come; changes nothing.
-- KEYS: progress
-- ARGV: none
-- Reply: {its record or '', now ms}.
-- include: clock
return {redis.call('GET', progress) or '', clock()}
