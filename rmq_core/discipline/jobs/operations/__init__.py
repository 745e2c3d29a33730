"""The operations of a job queue as exchanges: generators that yield requests and receive replies. No IO, no clock."""
