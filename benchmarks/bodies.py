"""What is submitted: a job for each model, with places for its webhook's URL and its number."""

WORK_MS = 20  # of a batch of `work`
SLOW_MS = 20_000  # of a batch of `slow`
BODY = '{"model":"%s","inputs":%s,"webhook":{"url":"%%s"},"metadata":{"number":%%d}}'
INPUTS = {"echo": '{"x":[[1,2,3]]}', "work": f'{{"ms":[[{WORK_MS}]]}}', "slow": f'{{"ms":[[{SLOW_MS}]]}}'}
BODIES = {model: BODY % (model, inputs) for model, inputs in INPUTS.items()}
