import importlib
import importlib.util
import sys

import pytest

from vlm_envs.moved import alias_modules


@pytest.fixture
def moved(monkeypatch):
    names = {"vlm_envs.old_place.splits": "vlm_envs.splits"}
    alias_modules(names)
    yield
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("moved")
class TestAliasModules:
    def test_names_come_from_the_new_module_with_a_warning(self):
        with pytest.warns(DeprecationWarning, match=r"vlm_envs\.old_place\.splits moved to vlm_envs\.splits"):
            from vlm_envs.old_place.splits import split_seeds
        from vlm_envs.splits import split_seeds as current

        assert split_seeds is current

    def test_a_module_loaded_by_its_old_path_gives_the_same_objects(self):
        module = importlib.import_module("vlm_envs.old_place.splits")
        with pytest.warns(DeprecationWarning):
            assert module.SPLITS is importlib.import_module("vlm_envs.splits").SPLITS

    def test_an_unknown_name_is_an_import_error(self):
        with pytest.warns(DeprecationWarning), pytest.raises(ImportError, match="no_such_name"):
            from vlm_envs.old_place.splits import no_such_name  # noqa: F401

    def test_loading_alone_neither_warns_nor_imports(self, recwarn):
        importlib.import_module("vlm_envs.old_place.splits")
        assert not [w for w in recwarn if w.category is DeprecationWarning]


def test_a_module_that_exists_is_not_replaced():
    import vlm_envs.splits

    alias_modules({"vlm_envs.splits": "vlm_envs.errors"})
    assert sys.modules["vlm_envs.splits"] is vlm_envs.splits


@pytest.mark.parametrize("package", ["vlm_envs", "agents", "judges", "training", "benchmarks"])
def test_old_paths_lead_to_modules_that_exist(package):
    importlib.import_module(package)
    in_package = {name: module for name, module in sys.modules.items() if name.startswith(f"{package}.")}
    moved = {name: module.new_path for name, module in in_package.items() if hasattr(module, "new_path")}
    assert moved
    for old, new in moved.items():
        assert importlib.util.find_spec(new) is not None, new
        importlib.import_module(old.rpartition(".")[0])  # needed to import `old` before the package itself
