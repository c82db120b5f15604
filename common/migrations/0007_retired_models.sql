-- Since when no dispatcher has seen the version on a Triton that answers; NULL while one does, or none answers.
ALTER TABLE models ADD missing_since timestamptz;
