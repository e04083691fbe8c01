"""Results of cells on disk: their schema, how to find them, and how to read them as one tidy table."""

from modtf.results.cells import CellFolder as CellFolder
from modtf.results.cells import find_cells as find_cells
from modtf.results.load import Activations as Activations
from modtf.results.load import load_activations as load_activations
from modtf.results.load import load_history as load_history
from modtf.results.load import load_results as load_results
from modtf.results.load import with_categories as with_categories
from modtf.results.schema import CELL as CELL
from modtf.results.schema import COLUMNS as COLUMNS
from modtf.results.schema import HISTORY_COLUMNS as HISTORY_COLUMNS
from modtf.results.schema import KIND as KIND
from modtf.results.schema import VARIANTS as VARIANTS
from modtf.results.schema import write_activations as write_activations
from modtf.results.schema import write_history as write_history
from modtf.results.schema import write_results as write_results
