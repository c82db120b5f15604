// The definition of a pipeline: what its steps need, and how people read it. Pure.

/** @typedef {import("./types.js").PipelineDefinition} PipelineDefinition */

const FIRST_DEFINITION = {
  inputs: { image: { datatype: "BYTES", shape: [1] } },
  steps: { read: { model: "ocr", inputs: { image: "$inputs.image" } } },
  outputs: { text: "$read.text" },
};

/** What a form begins with. */
export const EXAMPLE = JSON.stringify(FIRST_DEFINITION, null, 2);

/**
 * @param {PipelineDefinition} definition
 * @returns {Record<string, string[]>} for each step, the steps that it refers to
 */
export function listNeeds({ steps }) {
  return Object.fromEntries(
    Object.entries(steps).map(([name, step]) => {
      const sources = Object.values(step.inputs).map((text) => text.slice(1).split(".")[0]);
      return [name, [...new Set(sources)].filter((source) => source in steps)];
    }),
  );
}

/**
 * @param {PipelineDefinition} definition as the API shows it, with its defaults
 * @returns {PipelineDefinition} the same without those that are null; the model of a step comes first
 */
export function tidyDefinition(definition) {
  const steps = Object.entries(definition.steps).map(([name, { model, inputs, ...rest }]) => {
    const given = Object.entries(rest).filter(([, value]) => value !== null);
    return [name, { model, inputs, ...Object.fromEntries(given) }];
  });
  return { ...definition, steps: Object.fromEntries(steps) };
}
