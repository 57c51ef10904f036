/* Sphinx's own scores, except that pages about a term come before the glossary. */
const GLOSSARY_PENALTY = 8;

var Scorer = {
  score: ([page, , , , score]) => (page === "glossary" ? score - GLOSSARY_PENALTY : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
