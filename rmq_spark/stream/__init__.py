"""`readStream`: a lease for each micro-batch, under a consumer's name, and metrics of the stream."""
